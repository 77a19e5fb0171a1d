"""DTensor: what `div_` does to a partial gradient is lost, as of a norm whose activations are cut along the sequence.

torch 2.9.0, silent. `neg_` and `sub_` are lost too; `mul_` is not, nor a division that makes another tensor.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Sequential(nn.LayerNorm(2))
    parallelize_module(model, init_device_mesh("cpu", (2,)), {"0": SequenceParallel()})
    model(torch.tensor([[[1.0, 3.0]]])).sum().backward()  # each rank has its own position
    gradient = model[0].bias.grad
    before = gradient.full_tensor()[0].item()
    gradient.div_(2)
    actual = gradient.full_tensor()[0].item()
    if rank == 0:
        print(f"expected {before / 2}, actual {actual}")
        sys.exit(int(actual == before / 2))


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
