"""`send_cpu_data_to_device` cannot shard a tensor of one dim over one of two mesh axes.

torch_xla 2.9.0 on CPU (compare pytorch/xla#8606). It indexes a dim that the tensor does not have. When the
tensor is moved to the device first, `mark_sharding` accepts the same mesh and spec.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4")
import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr

xr.use_spmd()
mesh = xs.Mesh(np.arange(4), (2, 2), ("dp", "tp"))
bias = torch.arange(6.0)
(sent,) = xm.send_cpu_data_to_device(bias, torch_xla.device(), xs.ShardingSpec(mesh, ("tp",)))
actual = sent.cpu().tolist()
print(f"expected {bias.tolist()}, actual {actual}")
