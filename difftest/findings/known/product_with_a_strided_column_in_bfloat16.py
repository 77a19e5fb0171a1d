"""The product of a bfloat16 matrix and a column of another reads the other's columns too, on the CPU.

It is so where the product has more than 4096 multiplications, which oneDNN does. torch 2.9.0. Exits 0 while
the fault is there.
"""

import sys

import torch

matrix = torch.ones(129, 32, dtype=torch.bfloat16)
column = torch.tensor([[1.0, 0.0]] * 32, dtype=torch.bfloat16)[:, :1]
expected, actual = (matrix.float() @ column.float()).unique(), (matrix @ column).unique()
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(bool(torch.equal(expected, actual.float())))
