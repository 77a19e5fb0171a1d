"""`histc` of integers fails for DTensors on a GPU, where torch has it for plain tensors.

torch 2.9.0; fixed in 2.15.0. DTensor computes the shape of the result with fake tensors of the CPU
(`_rebuild_tensor_from_dtensor_meta` names no device), and there `histc` refuses integers. It fails before
anything is computed, so that the tensor here is a meta tensor on a mesh of GPUs, and no GPU is needed.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = DeviceMesh("cuda", [0, 1], _init_backend=False)
experts = torch.empty(4, dtype=torch.int32, device="meta")
torch.histc(DTensor.from_local(experts, mesh, [Replicate()], run_check=False), bins=4, min=0, max=3)
