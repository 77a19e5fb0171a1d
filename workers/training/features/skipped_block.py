"""A block that is the identity in all but the last of some forward passes, as one that data decides about.

Equal to the same: there is nothing in it that a wrapper does.
"""

from typing import Any

from torch import nn

from difftest.cases.features.skipped_block import Options
from workers.training.features import Hooks
from workers.training.forwards import replace_forward


def hooks(options: Options) -> Hooks:
    """Around the forward of the block."""

    def place(module: nn.Module) -> nn.Module:
        block = module.get_submodule(options.block)
        forward, passes = block.forward, list[None]()

        def skipping(inputs: Any, *others: Any) -> Any:  # noqa: ANN401  the block's
            passes.append(None)
            return forward(inputs, *others) if is_used(len(passes), options.parts) else inputs

        replace_forward(block, skipping)
        return module

    return Hooks(place=place)


equal = hooks


def is_used(passes: int, parts: int) -> bool:
    """Whether forward pass number `passes`, counted from 1, uses the block."""
    return passes % parts == 0
