"""What every building block computes: a file for each, which makes its torch module.

The modules are torch's own where torch has them. Their parameters and buffers are those that
`difftest.cases.blocks` declares for the same arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from difftest.ground import plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What blocks are built from beside their arguments.

    `sequence` is the model's, 0 where it has none. Tables that a module makes are rounded to `rounded`, the
    case's dtype, so that every backend and the oracle have the same.
    """

    sequence: int
    rounded: torch.dtype


class BuiltBlock(Protocol):
    """What a file in this folder offers."""

    def module(self, arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
        """The torch module on the host, from the arguments of the case."""


def module_of(block: str, arguments: Mapping[str, Any], sizes: Sizes) -> nn.Module:
    """The torch module of the block called so."""
    return cast("BuiltBlock", plugins.load(__name__, block)).module(arguments, sizes)


def widened(tensor: Tensor) -> Tensor:
    """The tensor in float32, as models do before what half types are too coarse for; float64 stays."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()
