"""torch_xla's gradient accumulation fails with gradient checkpointing of a module's method.

torch_xla 2.9.0 on CPU. Libraries pass a module's method to torch_xla's `checkpoint`. Checkpointing puts the
module's parameters behind an optimization barrier, in place. The body of the accumulation must not change its
inputs, and the parameters are among them.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import torch
import torch_xla.runtime as xr
from torch_xla.experimental.gradient_accumulation import gradient_accumulation
from torch_xla.utils.checkpoint import checkpoint

xr.use_spmd()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
parts = torch.randn(2, 3, 4)
expected = model(parts).sum().item() / 2
model, parts = model.to("xla"), parts.to("xla")
actual = gradient_accumulation(
    lambda part: checkpoint(model[1].forward, model[0](part)).sum(), (parts,), model
).item()
print(f"expected {expected}, actual {actual}")
