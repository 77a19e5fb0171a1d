"""`gradient_accumulation` returns the second and the third carried tensor in each other's place.

The index of a result has the wrong sign, and a negative one counts from the end. torch_xla 2.9.0 on the CPU. Exits 0
while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
from torch_xla.experimental.gradient_accumulation import gradient_accumulation

model = torch.nn.Linear(2, 1).to("xla")
parts = torch.ones(3, 2, 2).to("xla")
carried = [torch.tensor(float(start)).to("xla") for start in (0, 10, 100)]


def step(part, first, second, third):
    return model(part).sum(), first + 1, second + 2, third + 3


_, *results = gradient_accumulation(step, (parts,), model, *carried)
actual, expected = [result.item() for result in results], [3.0, 16.0, 109.0]
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
