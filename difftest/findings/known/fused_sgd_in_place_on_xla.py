"""The in-place fused operators of SGD and Adagrad have no kernel.

torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import numpy as np
import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.distributed import spmd

xr.use_spmd()
XLA, MESH = torch_xla.device(), spmd.Mesh(np.arange(2), (2,), ("x",))
SGD = {"weight_decay": 0, "momentum": 0, "lr": 1, "dampening": 0, "nesterov": False, "is_first_step": False}


def sgd_in_place() -> object:
    """SGD; Adagrad fails alike."""
    return torch._fused_sgd_(
        [torch.ones(2, device=XLA)], [torch.ones(2, device=XLA)], [], maximize=False, **SGD
    )


print("expected None, actual", sgd_in_place())
