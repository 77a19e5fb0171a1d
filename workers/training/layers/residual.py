"""The residual block, which can be computed again in the backward pass."""

from collections.abc import Callable

from torch import Tensor, nn

from difftest.cases.layers import residual
from workers.training.layers import Plan, module_of
from workers.training.modules import NO_EXTRAS, Chain, Extras, Reader


class Residual(Chain, Reader):
    """The input plus the output of its layers.

    `recompute`, if set, computes them again in the backward pass. `adds_in_place`: the input is added to the
    output itself.

    A block whose input needs no gradient is not: the checkpointing that XLA has (it is reentrant) would cut
    it off from the loss.
    """

    recompute: Callable[..., Tensor] | None = None
    times: int = 1
    adds_in_place: bool = False

    def forward(self, inputs: Tensor, extras: Extras = NO_EXTRAS) -> Tensor:
        """Same shape out as in."""
        for _ in range(self.times):
            inputs = self._once(inputs, extras)
        return inputs

    def _once(self, inputs: Tensor, extras: Extras) -> Tensor:
        if self.recompute and inputs.requires_grad:
            return inputs + self.recompute(super().forward, inputs, extras)
        given = super().forward(inputs, extras)
        return given.add_(inputs) if self.adds_in_place else inputs + given


def module(layer: residual.Residual, path: str, plan: Plan) -> nn.Module:
    """The block of its layers' modules."""
    block = Residual(*(module_of(inner, f"{path}.{index}", plan) for index, inner in enumerate(layer.layers)))
    block.times = layer.times
    block.recompute = plan.operators.recompute if plan.checkpointing else None
    return block
