"""DTensor has no rule for the memory-efficient and cuDNN kernels of attention with a mask, not even where everything is replicated.

torch 2.9.0. On CUDA `scaled_dot_product_attention` chooses the first of them for a mask. The rules come before the kernels, so that a CPU
shows it: without a mask it would only say that it has no such kernel. Mended for the first in torch 2.13, not for cuDNN's. Exits 0 when the
fault is there.
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
said = {}
for kernel in ("efficient", "cudnn"):
    for given in (None, mask):
        try:
            getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}_attention")(
                query, query, query, given, compute_log_sumexp=True
            )
        except (NotImplementedError, RuntimeError) as error:
            said[kernel, given is mask] = "Sharding propagation failed" in str(error)
lacking = [kernel for kernel, masked in said if masked and said[kernel, True] and not said[kernel, False]]
print(f"expected rules for all, actual none for {lacking} with a mask")
sys.exit(not lacking)
