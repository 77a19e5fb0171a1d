"""The gradient of a grouped convolution's weight is twice too large on a mesh with a second, replicated axis.

The batch is sharded over the first axis of 2 x 2 devices. On a mesh of one axis, and without groups, it is
right. torch_xla 2.9.0 on the CPU. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4", XLA_THREAD_POOL_SIZE="8")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch.nn import functional

xr.use_spmd()


def gradient(mesh: xs.Mesh | None) -> list[float]:
    device = torch_xla.device() if mesh else "cpu"
    rows, weight = torch.ones(4, 4, 4).to(device), torch.ones(4, 1, 3).to(device).requires_grad_()
    if mesh:
        xs.mark_sharding(rows, mesh, ("dp", None, None))
    functional.conv1d(rows, weight, padding=1, groups=4).square().sum().backward()
    return weight.grad[0, 0].tolist()


meshes = ((4,), ("dp",)), ((2, 2), ("dp", "tp"))
one, two = (gradient(xs.Mesh(np.arange(4), *axes)) for axes in meshes)  # before autograd runs on the host
expected = gradient(None)
print(f"expected {expected}, actual on a mesh of 4 {one}, on a mesh of 2 x 2 {two}")
sys.exit(0 if one == expected != two else 1)
