"""DTensor has no rule for the memory-efficient and cuDNN attention kernels with a mask, even if replicated.

torch 2.9.0. On CUDA, `scaled_dot_product_attention` chooses the memory-efficient kernel when there is a mask.
The sharding rules are looked up before the kernels, so a CPU shows the fault too: without a mask, the only
error is that the CPU has no such kernel. torch 2.13 has a rule for the memory-efficient kernel, but not for
cuDNN's. Exits 0 when the fault is there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor

distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
query, mask = (
    distribute_tensor(tensor, mesh, [Replicate()])
    for tensor in (torch.ones(2, 2, 8, 8), torch.zeros(2, 2, 8, 8))
)
lacks_rule = {}
for kernel in ("efficient", "cudnn"):
    for given in (None, mask):
        try:
            getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}_attention")(
                query, query, query, given, compute_log_sumexp=True
            )
        except (NotImplementedError, RuntimeError) as error:
            lacks_rule[kernel, given is mask] = "Sharding propagation failed" in str(error)
lacking = [
    kernel
    for kernel, masked in lacks_rule
    if masked and lacks_rule[kernel, True] and not lacks_rule[kernel, False]
]
print(f"expected rules for all, actual none for {lacking} with a mask")
sys.exit(not lacking)
