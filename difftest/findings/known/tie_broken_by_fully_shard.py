"""`fully_shard` of an embedding and of the output layer that has its weight breaks the tie between them.

torch 2.9.0. Each makes a parameter of its own, with a part of the gradient, and both are trained apart. Silent.
Exits 0 while the fault is there.
"""

import sys
import tempfile

from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
model = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6, bias=False))
model[1].weight = model[0].weight
for layer in (*model, model):
    fully_shard(layer, mesh=mesh)
count = len(list(model.parameters()))
print(f"expected 1 parameter, actual {count}")
distributed.destroy_process_group()
sys.exit(0 if count == 2 else 1)
