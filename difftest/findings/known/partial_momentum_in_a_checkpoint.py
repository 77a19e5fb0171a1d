"""DTensor: a momentum that is a partial sum is saved in a checkpoint as the share of one rank.

SGD keeps the first gradient as its momentum, and gradients of replicated parameters are partial sums where the
batch is sharded. torch 2.9.0; 2.15.0 refuses to save it. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_module, distribute_tensor


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    model = distribute_module(nn.Linear(1, 1, bias=False), mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    model(distribute_tensor(torch.tensor([[1.0], [2.0]]), mesh, [Shard(0)])).sum().backward()
    optimizer.step()
    expected = optimizer.state[model.weight]["momentum_buffer"].full_tensor().item()
    state = {"optimizer": get_optimizer_state_dict(model, optimizer)}
    try:
        checkpoint.save(state, checkpoint_id=f"{rendezvous}.checkpoint")
    except BaseException as error:
        print(
            f"rank {rank}: expected to save, actual {type(error).__name__}: {str(error).splitlines()[-1][:200]}"
        )
        sys.exit(0)
    checkpoint.load(state, checkpoint_id=f"{rendezvous}.checkpoint")
    set_optimizer_state_dict(model, optimizer, state["optimizer"])
    actual = optimizer.state[model.weight]["momentum_buffer"].full_tensor().item()
    print(f"rank {rank}: expected a momentum of {expected}, actual {actual}")
    sys.exit(expected == actual)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
