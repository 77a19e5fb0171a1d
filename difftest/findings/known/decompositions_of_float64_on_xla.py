"""Singular values and eigenvalues of float64 matrices have the accuracy of float32.

The matrix is not what its factors multiply to: XLA's iterations end at a tolerance of 1e-6 in every dtype.
torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()
MATRIX = torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
CALLS = {
    "eigh": MATRIX + MATRIX.T,
    "svd": MATRIX,
}
ACCURATE = 1e-12
"""Below this is the error of float64, which is 1e-14 on the host."""


def error(name: str, device: object) -> float:
    """How far the product of the factors is from the matrix."""
    factors = [one.cpu() for one in getattr(torch.linalg, name)(CALLS[name].to(device))]
    if name == "eigh":
        values, vectors = factors
        return (vectors @ values.diag() @ vectors.T - CALLS[name]).abs().max().item()
    left, values, right = factors
    return (left @ values.diag() @ right - CALLS[name]).abs().max().item()


missing = []
for name in CALLS:
    expected, actual = error(name, "cpu"), error(name, XLA)
    print(f"{name}: expected an error of {expected:.1e}, actual {actual:.1e}")
    missing += [] if expected < ACCURATE < actual else [name]
sys.exit(f"not there: {missing}" if missing else 0)
