"""Results of other dtypes than torch's: `cumsum` of int32 is int32, which overflows, and not int64.

`where` and `xlogy` take the dtype of a number without dims, which counts in torch only if its kind is higher.
The gradient of dropout of whole numbers is of whole numbers, and loses what its factor makes of them.
torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

FAULTS = {
    "cumsum": lambda at: torch.full((2,), 2**30, dtype=torch.int32, device=at).cumsum(0),
    "dropout_gradient": lambda at: torch.ops.aten.native_dropout_backward(
        torch.ones(1, dtype=torch.int32, device=at), torch.ones(1, dtype=torch.bool, device=at), 1.5
    ),
    "where": lambda at: torch.where(
        torch.tensor([True], device=at),
        torch.tensor(1.0, device=at),
        torch.ones(1, dtype=torch.float16, device=at),
    ),
    "xlogy": lambda at: torch.xlogy(
        torch.ones(1, device=at), torch.tensor(2.0, dtype=torch.float64, device=at)
    ),
}
right = False
for name in sys.argv[1:] or FAULTS:
    expected, actual = FAULTS[name]("cpu"), FAULTS[name](torch_xla.device()).cpu()
    print(f"{name}: expected {expected.dtype} {expected.tolist()}, actual {actual.dtype} {actual.tolist()}")
    right |= expected.dtype == actual.dtype
sys.exit(1 if right else 0)
