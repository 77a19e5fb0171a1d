"""The mask of `native_dropout` of an empty tensor is float32; of any other tensor it is boolean.

torch 2.9.0 and 2.15.0 on the CPU. A rank of a DTensor that holds no rows has such a mask: the gradient's
collective then exchanges 4 bytes with 1 byte, and gloo aborts the process. Exits 0 while the fault is there.
"""

import sys

import torch

masks = {rows: torch.native_dropout(torch.ones(rows, 2), 0.5, train=True)[1].dtype for rows in (0, 1)}
print(f"expected torch.bool, actual {masks[0]} (of one row: {masks[1]})")
sys.exit(masks[0] == masks[1])
