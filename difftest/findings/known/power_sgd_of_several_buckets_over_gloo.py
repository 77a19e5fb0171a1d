"""DDP's PowerSGD hook waits forever over gloo where there are several buckets.

The hook reduces one product after the other in callbacks, which run in other threads. Ranks issue the
reductions of several buckets in different orders. torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys
import tempfile
import time

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

STEPS, SECONDS = 50, 30.0


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Linear(24, 24) for _ in range(6)))
    model = DistributedDataParallel(layers, bucket_cap_mb=2**-12)
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for _ in range(STEPS):
        model(torch.ones(2, 24)).sum().backward()


if __name__ == "__main__":
    ranks = multiprocessing.spawn(main, (tempfile.mktemp(),), 2, join=False)
    end = time.monotonic() + SECONDS
    while not (done := ranks.join(timeout=1.0)) and time.monotonic() < end:
        pass
    print(f"expected {STEPS} steps, actual {'as many' if done else f'no end within {SECONDS:g} s'}")
    for process in ranks.processes:
        process.kill()
    sys.exit(done)
