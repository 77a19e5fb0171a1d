"""`x[mask] = number` counts the mask's elements on the host, so that every step of `Rprop` compiles anew.

On the CPU and on GPUs the same is `masked_fill_`, which reads nothing. With `capturable=True` `Rprop` takes
`where`. pytorch/xla#4248. torch_xla 2.9.0 on the CPU. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from torch_xla.debug import metrics


def last_of_six(*, capturable: bool) -> tuple[int, int]:
    """How often the last step counts elements on the host, and how many graphs it compiles."""
    weight = torch.nn.Parameter(torch.ones(100, device=torch_xla.device()))
    optimizer = torch.optim.Rprop([weight], capturable=capturable, foreach=False)
    for seed in range(6):
        torch.manual_seed(seed)
        weight.grad = torch.randn(100).to(torch_xla.device())
        torch_xla.sync()
        metrics.clear_all()
        optimizer.step()
        torch_xla.sync()
    names = "aten::nonzero", "UncachedCompile"
    counted, compiled = (metrics.counter_value(name) or 0 for name in names)
    return counted, compiled


plain, capturable = last_of_six(capturable=False), last_of_six(capturable=True)
print(f"counts on the host and new graphs: expected none, actual {plain}, with capturable=True {capturable}")
sys.exit(0 if min(plain) > 0 and capturable == (0, 0) else 1)
