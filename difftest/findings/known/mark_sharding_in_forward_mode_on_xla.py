"""XLA: `mark_sharding` in a function that `torch.func.jvp` differentiates fails.

torch_xla 2.9.0. Dual numbers do the same without a fault.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
mesh = xs.Mesh(np.arange(2), (2,), ("dp",))


def doubled(inputs: torch.Tensor) -> torch.Tensor:
    result = inputs * 2
    xs.mark_sharding(result, mesh, ("dp", None))
    return result


inputs = torch.ones(2, 4, device=torch_xla.device())
_, derivative = torch.func.jvp(doubled, (inputs,), (inputs,))
print(f"expected and actual: {derivative.tolist()}")
