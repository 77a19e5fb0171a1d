"""FSDP1 with `use_orig_params`: of an optimizer's state that rank 0 sends, all tensors of a parameter have one's values.

`exp_avg` is `exp_avg_sq` behind `broadcast_from_rank0`. torch 2.9.0 and 2.15.0, silent. Exits 0 while the fault is
there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import FullyShardedDataParallel


def first_moment(optimizer: torch.optim.Optimizer) -> list[float]:
    kept = next(iter(optimizer.state.values()))
    numbers: list[float] = kept["exp_avg"].flatten()[:2].tolist()
    return numbers


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    module = FullyShardedDataParallel(nn.Linear(4, 4), use_orig_params=True, device_id=torch.device("cpu"))
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    before = first_moment(optimizer)
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    kept = get_optimizer_state_dict(module, optimizer, options=whole)
    sent = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_optimizer_state_dict(module, optimizer, kept, options=sent)
    actual = first_moment(optimizer)
    print(f"rank {rank}: exp_avg: expected {before}, actual {actual}", flush=True)
    distributed.barrier()
    distributed.destroy_process_group()
    sys.exit(actual == before)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
