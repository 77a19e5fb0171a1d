"""Norms, `std`, `normalize` and `cosine_similarity` of float16 square in float16: infinite above 256.

torch adds up squares in float32. `normalize`, `cosine_similarity` and `std` are wrong for the same reason.
torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional

CALLS = {
    "cosine_similarity": lambda tensor: functional.cosine_similarity(tensor, tensor, dim=0),
    "norm": torch.linalg.vector_norm,
    "normalize": lambda tensor: functional.normalize(tensor, dim=0),
    "pairwise_distance": lambda tensor: functional.pairwise_distance(tensor, -tensor),
    "std": torch.std,
}
right = False
for name in CALLS:
    given = torch.tensor([300.0, -300.0], dtype=torch.float16)
    expected, actual = CALLS[name](given), CALLS[name](given.to(torch_xla.device())).cpu()
    print(f"{name}: expected {expected.tolist()}, actual {actual.tolist()}")
    right |= torch.allclose(expected, actual, rtol=0.01)
sys.exit(1 if right else 0)
