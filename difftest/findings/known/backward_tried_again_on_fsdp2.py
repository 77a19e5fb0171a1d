"""FSDP2: behind an exception in a backward pass, which the program catches, the root is never sharded again.

The next backward pass registers no final callback, as the one before has not run. Then updates are not seen, or with
a layer that is wrapped apart torch 2.9.0 raises. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.fsdp import fully_shard


def fail(*_: object) -> None:
    raise torch.OutOfMemoryError


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    outputs = []
    for kind in ("one process", "FSDP2"):
        model = nn.Sequential(nn.Linear(2, 2, bias=False))
        nn.init.ones_(model[0].weight)
        if kind == "FSDP2":
            fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        hook = model[0].register_full_backward_pre_hook(fail)
        try:
            model(torch.ones(1, 2)).sum().backward()
        except torch.OutOfMemoryError:
            hook.remove()
            optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        outputs.append(model(torch.ones(1, 2)).sum().item())
    print(f"rank {rank}: expected the output {outputs[0]} behind the update, actual {outputs[1]}")
    sys.exit(outputs[0] == outputs[1])


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
