"""`while_loop` runs no times, or fails, where its condition has a number other than 0 and 1.

Such a number becomes a parameter of the condition, which shifts the loop's own variables. torch_xla 2.9.0 on the
CPU. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla.experimental.fori_loop  # noqa: F401
from torch._higher_order_ops.while_loop import while_loop


def looped(device: str) -> list[int]:
    start = torch.tensor(0).to(device), torch.tensor(10).to(device)
    return [value.item() for value in while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + i), start)]


actual, expected = looped("xla"), [3, 13]
print(f"expected {expected}, actual {actual}")
sys.exit(actual == expected)
