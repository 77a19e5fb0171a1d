"""An optimizer that is made before its module is moved to JAX trains nothing.

On other devices `to` keeps the parameters and replaces what they hold; on JAX it replaces the parameters.
torchax 0.0.6 and 0.0.13. Exits 0 while the fault is there.
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import torch
import torchax
from torch import nn

torchax.enable_globally()
with torch.device("cpu"):
    model = nn.Linear(2, 2, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
model.to("jax")
before, model.weight.grad = model.weight + 0, torch.ones(2, 2).to("jax")
optimizer.step()
step = (before - model.weight).detach().cpu().flatten().tolist()
print("expected a step of [1.0, 1.0, 1.0, 1.0], actual", step)
sys.exit(step != [0.0] * 4)
