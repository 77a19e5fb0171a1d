"""What goes wrong on XLA of the operators that fused optimizers call, which run on the host; names select.

torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import numpy as np
import torch
import torch_xla
import torch_xla.runtime as xr
from torch_xla.distributed import spmd

xr.use_spmd()
XLA, MESH, ATEN = torch_xla.device(), spmd.Mesh(np.arange(2), (2,), ("x",)), torch.ops.aten
SGD = {"weight_decay": 0, "momentum": 0, "lr": 1, "dampening": 0, "nesterov": False, "is_first_step": False}
ADAM = {"lr": 1, "beta1": 0.9, "beta2": 0.9, "weight_decay": 0, "eps": 1, "amsgrad": False}


def adam_in_place() -> object:
    """Adam without `amsgrad`, whose list of greatest averages is empty."""
    lists = [[torch.ones(2, device=XLA)] for _ in range(4)]
    return torch._fused_adam_(*lists, [], [torch.ones((), device=XLA)], maximize=False, **ADAM)


def sgd_in_place() -> object:
    """SGD; Adagrad fails alike."""
    return torch._fused_sgd_(
        [torch.ones(2, device=XLA)], [torch.ones(2, device=XLA)], [], maximize=False, **SGD
    )


def shards() -> object:
    """What the two devices hold of the updated weights, before anything else is computed."""
    weight, gradient = torch.arange(4.0).to(XLA), torch.zeros(4).to(XLA)
    spmd.mark_sharding(weight, MESH, ("x",))
    (updated,), *_ = ATEN._fused_sgd([weight], [gradient], [], maximize=False, **SGD)  # noqa: SLF001
    return [shard.unpadded_data.tolist() for shard in spmd.XLAShardedTensor(updated).local_shards]


FAULTS = {
    "adam_in_place": (adam_in_place, None),
    "sgd_in_place": (sgd_in_place, None),
    "shards": (shards, [[0.0, 1.0], [2.0, 3.0]]),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    fault, expected = FAULTS[name]
    try:
        actual = fault()
    except (RuntimeError, NotImplementedError) as error:
        actual = str(error)[:120]
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
