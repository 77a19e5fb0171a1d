"""`gradient_accumulation` fails if the loss is not float32, or if a parameter gets no gradient.

The sum of the losses begins as a float32 zero. torch_xla 2.9.0 on the CPU. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch import nn
from torch_xla.experimental.gradient_accumulation import gradient_accumulation


def attempt(dtype: torch.dtype, model: nn.Module, used: nn.Module) -> str:
    parts = torch.ones(3, 2, 2, dtype=dtype).to("xla")
    try:
        gradient_accumulation(lambda part: used(part).sum(), (parts,), model)
        torch_xla.sync(wait=True)
    except Exception as error:
        return type(error).__name__
    return "none"


two = nn.Sequential(nn.Linear(2, 1), nn.Linear(2, 1)).to("xla")
single = {
    dtype: nn.Linear(2, 1, dtype=dtype).to("xla") for dtype in (torch.float32, torch.bfloat16, torch.float64)
}
actual = [attempt(dtype, model, model) for dtype, model in single.items()] + [
    attempt(torch.float32, two, two[0])
]
print(f"expected no exceptions; float32, bfloat16, float64, float32 with an unused parameter: {actual}")
sys.exit(actual == ["none"] * 4)
