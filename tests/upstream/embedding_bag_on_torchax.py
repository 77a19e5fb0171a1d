"""`nn.EmbeddingBag` with offsets fails in a compiled function: its bags are split at traced offsets.

torchax 0.0.6 and 0.0.13. Exits 0 while the fault is there.
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
import torch
import torchax
from torchax import interop

torchax.enable_globally()
ids, offsets, weight = torch.arange(4), torch.tensor([0, 2]), torch.ones(4, 3)


def bags(*tensors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding_bag(*tensors, mode="sum")


expected = bags(ids, weight, offsets).tolist()
try:
    actual = interop.jax_jit(bags)(*(tensor.to("jax") for tensor in (ids, weight, offsets))).cpu().tolist()
except Exception as error:  # noqa: BLE001  JAX's own
    actual = f"{type(error).__name__}: {error}"[:120]
print(f"expected {expected}, actual {actual}")
sys.exit("TracerArrayConversionError" not in actual)
