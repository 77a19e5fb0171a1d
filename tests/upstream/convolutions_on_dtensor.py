"""Convolutions of replicated DTensors fail, because the rule takes every one for a sharded one of two dims.

torch 2.9.0. The process group is torch's fake one, which communicates nothing. A name runs one fault alone.
Exits 0 when all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
from torch.nn.functional import conv1d, conv2d, conv3d, conv_transpose2d
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def whole(*shape: int) -> DTensor:
    return distribute_tensor(torch.rand(shape), mesh, [Replicate()])


IMAGE, CUBE, KERNEL, BIAS = whole(1, 3, 8, 8), whole(1, 1, 4, 4, 4), whole(3, 3, 3, 3), whole(3)
FAULTS = {
    "without_bias": (lambda: conv2d(IMAGE, KERNEL), "aten.convolution.default"),
    "stride": (lambda: conv2d(IMAGE, KERNEL, BIAS, stride=2, padding=1), "Stride must be 1"),
    "dilation": (lambda: conv2d(IMAGE, KERNEL, BIAS, dilation=2), "Dilation must be 1"),
    "conv1d": (lambda: conv1d(whole(1, 3, 4), whole(3, 3, 3), BIAS), "tuple index out of range"),
    "conv3d": (lambda: conv3d(CUBE, whole(1, 1, 3, 3, 3), whole(1), padding=1), "Sizes of tensors"),
    "transposed": (lambda: conv_transpose2d(IMAGE, KERNEL, BIAS), "is divisible by"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, message = FAULTS[name]
    try:
        print(f"{name}: expected a result, actual {call()}")
        missing.append(name)
    except RuntimeError as error:
        print(f"{name}: expected a result, actual {str(error)!r}")
        missing += [] if message in str(error) else [name]
sys.exit(f"not there: {missing}" if missing else 0)
