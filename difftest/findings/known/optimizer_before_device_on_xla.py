"""An optimizer that is made before its module is moved to XLA trains nothing, without a warning.

On other devices `to` keeps the parameters and replaces what they hold; on XLA it replaces the parameters.
Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla
from torch import nn

model = nn.Linear(2, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
before = model.weight.detach().clone()
model.to(torch_xla.device())
model(torch.ones(1, 2).to(torch_xla.device())).sum().backward()
optimizer.step()
step = (before - model.weight.detach().cpu()).flatten().tolist()
print(f"expected a step of [1.0, 1.0], actual {step}")
sys.exit(0 if step == [0.0, 0.0] else 1)
