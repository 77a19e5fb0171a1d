"""torchax 0.0.6: a bfloat16 tensor times a Python number is float32.

This also happens in torchax's accuracy mode. Exits 0 when the fault is there.
"""

import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import torch
import torchax

torchax.enable_accuracy_mode()
with torchax.default_env():
    product = torch.ones(2, dtype=torch.bfloat16).to("jax") * 0.5
print("expected torch.bfloat16, actual", product.dtype)
sys.exit(product.dtype != torch.float32)
