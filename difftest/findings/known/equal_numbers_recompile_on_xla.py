"""A program compiles anew when a Python number that changes happens to equal another one in the program.

torch_xla passes Python numbers as inputs, and equal ones as one input: that is another graph. Exits 0 while
the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla
from torch_xla.debug import metrics

tensor = torch.ones(3).to(torch_xla.device())
torch_xla.sync()
compiled = []
for number in (2.0, 4.0, 5.0, 3.0, 6.0):
    result = tensor * number + 3.0
    torch_xla.sync()
    compiled.append(metrics.counter_value("UncachedCompile"))
print(f"expected {[compiled[0]] * 5} graphs after each step, actual {compiled}")
sys.exit(0 if compiled[2] == compiled[0] < compiled[3] else 1)
