"""Under SPMD and `torch.compile(backend="openxla")` weights get the gradient of an earlier batch.

The gradient of a Linear layer's weight is its input times what comes back. In the second step the input is
that of the first step: the backward's graph is given the new one and keeps the old. Nothing is reported. It
happens with and without annotations, and not without `use_spmd()`.

torch_xla 2.9.0 on the CPU. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
import torch_xla.runtime

torch_xla.runtime.use_spmd()
torch_xla.runtime.global_runtime_device_count()  # starts the runtime, before autograd counts its devices
linear = torch.nn.Linear(1, 1, bias=False).to(torch_xla.device())
compiled = torch.compile(linear, backend="openxla")
for number in (1.0, 2.0):
    linear.weight.grad = None
    compiled(torch.full((1, 1), number).to(torch_xla.device())).sum().backward()
    torch_xla.sync()
    actual = linear.weight.grad.item()
    print(f"input {number}: expected a gradient of {number}, actual {actual}")
sys.exit(0 if actual == 1.0 else 1)
