"""`parallelize_module` breaks the tie between two weights that both of its styles shard.

Every style makes a new parameter, so the embedding and the output layer are trained apart, without a warning.
Exits 0 while the fault is there.
"""

import sys
import tempfile

from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
model = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6, bias=False))
model[1].weight = model[0].weight
parallelize_module(
    model, mesh, {"0": RowwiseParallel(output_layouts=Shard(0)), "1": ColwiseParallel(input_layouts=Shard(0))}
)
count = len(list(model.parameters()))
print(f"expected 1 parameter, actual {count}")
distributed.destroy_process_group()
sys.exit(0 if count == 2 else 1)
