"""Flash attention on torch's side: `scaled_dot_product_attention` with one kernel allowed, and the run's environment says which.

On the CPU that is the flash kernel, masks included; what it cannot do goes to the math kernel: a learned bias, because it gives a mask no
gradient, and DTensors, which have no rule for it. On CUDA the flash kernel takes half types and no mask; what it does not take goes to the
memory-efficient kernel. `DIFFTEST_SDPA` names another (`MATH`, `EFFICIENT_ATTENTION`, ...) for a whole run: the further reference.
"""

import os
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.attention import SDPBackend

    from workers.operators import Operators, Scores

VARIABLE = "DIFFTEST_SDPA"


def operators(environment: dict[str, str]) -> "Operators":
    """The operators of a backend of plain tensors; what they used is written into `environment`."""
    from workers.operators import Operators

    return Operators(attend=partial(_attend, environment))


def _attend(environment: dict[str, str], query: "Tensor", key: "Tensor", value: "Tensor", scores: "Scores") -> "Tensor":
    from torch.nn.attention import sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    mask = allowed(query, key, scores)
    chosen = kernel(query, mask)
    environment["sdpa"] = chosen.name.lower()
    with sdpa_kernel(chosen):
        causal = scores.causal and mask is None
        return scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal, scale=scores.scale)


def allowed(query: "Tensor", key: "Tensor", scores: "Scores") -> "Tensor | None":
    """None where the kernel's own causal mask says it all; else which keys are seen, or what is added to the scores."""
    from workers.operators import forbidden

    if scores.segments is None and scores.ab is None:
        return None
    hidden = forbidden(scores, query, key)
    if scores.ab is None:
        return None if hidden is None else hidden.logical_not()
    return scores.ab if hidden is None else scores.ab.masked_fill(hidden, float("-inf"))


def kernel(query: "Tensor", mask: "Tensor | None") -> "SDPBackend":
    """The one kernel that is allowed."""
    import torch
    from torch.distributed.tensor import DTensor
    from torch.nn.attention import SDPBackend

    if name := os.environ.get(VARIABLE):
        return SDPBackend.__members__[name]
    if query.device.type == "cpu":
        learned = mask is not None and mask.requires_grad
        return SDPBackend.MATH if learned or isinstance(query, DTensor) else SDPBackend.FLASH_ATTENTION
    plain = mask is None and query.dtype in (torch.float16, torch.bfloat16)
    return SDPBackend.FLASH_ATTENTION if plain else SDPBackend.EFFICIENT_ATTENTION
