"""Moving a module to XLA breaks the ties between its weights: each module gets a parameter of its own.

On other devices `to` keeps ties. Both copies are then trained, each by its own half of the gradient, without
a warning. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU")
import torch_xla
from torch import nn

model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
model[1].weight = model[0].weight
model.to(torch_xla.device())
count = len(list(model.parameters()))
print(f"expected 1 parameter, actual {count}")
sys.exit(0 if count == 2 else 1)
