"""A value is computed by the code of an earlier graph, in which other inputs take the same places.

torch_xla runs what it compiled for one graph for every later one of the same hash. The hash has the shapes of
the inputs and their order, and not which of them goes where: `(a - b) * a` and `(a - b) * b` have the same.
With XLA_COMPILATION_CACHE_SIZE=0 the second product is right.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla

a = torch.tensor([1.0], device=torch_xla.device())
b = torch.tensor([10.0], device=torch_xla.device())
difference = a - b
actual = [(difference * a).item(), (difference * b).item()]
print(f"expected [-9.0, -90.0], actual {actual}")
sys.exit(actual == [-9.0, -90.0])
