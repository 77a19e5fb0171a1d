"""`nn.EmbeddingBag` with offsets fails in a compiled function: its bags are split at traced offsets.

torchax 0.0.6 and 0.0.13.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
import torch
import torchax
from torchax import interop

torchax.enable_globally()
ids, offsets, weight = torch.arange(4), torch.tensor([0, 2]), torch.ones(4, 3)


def bags(*tensors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding_bag(*tensors, mode="sum")


expected = bags(ids, weight, offsets).tolist()
actual = interop.jax_jit(bags)(*(tensor.to("jax") for tensor in (ids, weight, offsets))).cpu().tolist()
print(f"expected {expected}, actual {actual}")
