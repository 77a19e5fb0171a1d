"""`all` and `any` over a sharded dim fail for other dtypes than bool.

torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", XLA_THREAD_POOL_SIZE="16")
import torch
import torch_xla
from torch_xla.distributed import spmd

torch_xla.runtime.use_spmd()
MESH = spmd.Mesh([0, 1], (2,), ("x",))


def sharded(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.to(torch_xla.device())
    spmd.mark_sharding(tensor, MESH, ("x", *[None] * (tensor.dim() - 1)))
    return tensor


def all_and_any() -> tuple[object, object]:
    return (True, bool(sharded(torch.ones(4)).all()))


expected, actual = all_and_any()
print(f"expected {expected}, actual {actual}")
