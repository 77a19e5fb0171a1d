"""The backward pass of the memory-efficient kernel fails for DTensors with a mask that needs no gradient.

torch 2.9.0; fixed in 2.15.0. The rule gives the mask's gradient a placement wherever there is a mask. The kernel
gives no such gradient where none is needed (`output_mask`), as for a mask of causal or padded positions. It fails
before anything is computed, so that the tensors here are meta tensors on a mesh of GPUs, and no GPU is needed.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = DeviceMesh("cuda", [0, 1], _init_backend=False)


def replicated(*shape, dtype=torch.float32):
    local = torch.empty(shape, dtype=dtype, device="meta")
    return DTensor.from_local(local, mesh, [Replicate()], run_check=False)


query = key = value = output = cotangent = replicated(2, 4, 16, 8)
mask, logsumexp, seed = replicated(2, 4, 16, 16), replicated(2, 4, 32), replicated(dtype=torch.int64)
saved, needed = (output, logsumexp, seed, seed), [True, True, True, False]
backward = torch.ops.aten._scaled_dot_product_efficient_attention_backward
backward(cotangent, query, key, value, mask, *saved, dropout_p=0.0, grad_input_mask=needed, is_causal=False)
