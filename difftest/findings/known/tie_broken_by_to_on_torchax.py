"""Moving a module to JAX breaks its ties.

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
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
model.to("jax")
shared = model[0].weight is model[1].weight
print("expected a shared weight, as on the CPU; actual: shared is", shared)
sys.exit(shared)
