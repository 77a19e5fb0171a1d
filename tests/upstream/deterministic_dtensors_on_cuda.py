"""On CUDA with deterministic algorithms, calls of DTensors fail: torch indexes them by plain tensors.

torch 2.15.0. Without such algorithms the calls work, or say that DTensor has no rule. Tensors and group are
fake, so that no GPU is needed; an H100 shows the same. A name runs one alone. Exits 0 when all are there.
"""

import sys

import torch
from torch import distributed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.nn.functional import interpolate, max_pool3d, pad
from torch.testing._internal.distributed.fake_pg import FakeStore

FAULTS = {
    "interpolate": ((1, 2, 4, 4), lambda x: interpolate(x, scale_factor=2, mode="bilinear")),
    "pad": ((1, 2, 4), lambda x: pad(x, (1, 1), mode="replicate")),
    "max_pool3d": ((1, 2, 3, 6, 5), lambda x: max_pool3d(x, 3, 2, ceil_mode=True, return_indices=True)[0]),
}


def called(shape: tuple[int, ...], call: object) -> str:
    """The error's type and message; the shape of the result, where there is none."""
    local = torch.empty(shape, device="cuda:0", requires_grad=True)
    expected = tuple(call(local).shape)
    try:
        actual = tuple(call(DTensor.from_local(local, mesh, [Replicate()], run_check=False)).shape)
    except (NotImplementedError, RuntimeError) as error:
        actual = f"{type(error).__name__}: {error}"
    return f"expected {expected}, actual {actual}"


distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = DeviceMesh("cuda", [0, 1], _init_backend=False)
torch.use_deterministic_algorithms(mode=True)
missing = []
with FakeTensorMode():
    for name in sys.argv[1:] or FAULTS:
        print(f"{name}: {(said := called(*FAULTS[name]))}")
        missing += [] if "got mixed torch.Tensor and DTensor" in said else [name]
sys.exit(f"not there: {missing}" if missing else 0)
