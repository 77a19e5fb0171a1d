"""The in-place fused operators of Adam fail without `amsgrad`.

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
ADAM = {"lr": 1, "beta1": 0.9, "beta2": 0.9, "weight_decay": 0, "eps": 1, "amsgrad": False}


def adam_in_place() -> object:
    """Adam without `amsgrad`, whose list of greatest averages is empty."""
    lists = [[torch.ones(2, device=XLA)] for _ in range(4)]
    return torch._fused_adam_(*lists, [], [torch.ones((), device=XLA)], maximize=False, **ADAM)


print("expected None, actual", adam_in_place())
