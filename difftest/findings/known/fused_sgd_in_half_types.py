"""Fused SGD on the CPU updates no whole vectors of parameters in half types, only what is left over.

pytorch#191763. torch 2.9.0; 2.15.0 has it fixed. Exits 0 when the fault is there.
"""

import sys

import torch


def updated(dtype: torch.dtype) -> int:
    """How many of 67 elements a step updates."""
    weight = torch.nn.Parameter(torch.ones(67, dtype=dtype))
    weight.grad = torch.ones_like(weight)
    torch.optim.SGD([weight], lr=0.5, fused=True).step()
    return int((weight == 0.5).sum())


expected, *actual = (updated(dtype) for dtype in (torch.float32, torch.float16, torch.bfloat16))
print(f"updated elements: expected {expected} as in float32, actual {actual} in float16 and bfloat16")
sys.exit(0 if max(actual) < expected else 1)
