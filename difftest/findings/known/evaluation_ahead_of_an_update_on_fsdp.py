"""FSDP1 and FSDP2: an update behind a forward pass without gradients is not seen by the next forward pass.

Such a pass leaves the root gathered, and the next forward pass does not gather it again, in FSDP1 with
`FULL_SHARD` too. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    outputs = {}
    for kind in ("one process", "FSDP1", "FSDP2"):
        model = nn.Linear(2, 2, bias=False)
        nn.init.ones_(model.weight)
        if kind == "FSDP1":
            model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
        if kind == "FSDP2":
            fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        model(torch.ones(1, 2)).sum().backward()
        with torch.no_grad():
            model(torch.ones(1, 2))
        optimizer.step()
        outputs[kind] = model(torch.ones(1, 2)).sum().item()
    print(f"rank {rank}: expected the output {outputs['one process']}, actual {outputs}")
    sys.exit(len(set(outputs.values())) == 1)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
