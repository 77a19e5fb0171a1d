"""An optimizer that is made before its module is moved to JAX trains nothing, without a warning.

On other devices `to` keeps the parameters and replaces what they hold; on JAX it replaces the parameters.
With the argument `tied` two modules that share a weight no longer share it. torchax 0.0.6 and 0.0.13. Exits
0 while the fault is there.
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import torch
import torchax
from torch import nn

torchax.enable_globally()
with torch.device("cpu"):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
model.to("jax")
if sys.argv[1:] == ["tied"]:
    shared = model[0].weight is model[1].weight
    print("expected a shared weight, as on the CPU; actual: shared is", shared)
    sys.exit(shared)
before, model[0].weight.grad = model[0].weight + 0, torch.ones(2, 2).to("jax")
optimizer.step()
step = (before - model[0].weight).detach().cpu().flatten().tolist()
print("expected a step of [1.0, 1.0, 1.0, 1.0], actual", step)
sys.exit(step != [0.0] * 4)
