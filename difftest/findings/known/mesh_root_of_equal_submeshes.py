"""DeviceMesh: the root of a submesh becomes another mesh that has an equal submesh, so that FSDP2 refuses it.

torch 2.9.0. The process group is torch's fake one.
"""

from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
model = parallelize_module(nn.Linear(4, 4), mesh["tp"], ColwiseParallel())
init_device_mesh("cpu", (2, 2), mesh_dim_names=("ep", "tp"))["tp"]  # as of experts
fully_shard(model, mesh=mesh["dp"])
