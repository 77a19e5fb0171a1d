"""What the modules of all layer kinds share: layers in order, what is fed beside their input, and heads."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from torch import Tensor, nn

Extras: TypeAlias = Mapping[str, Tensor]
"""What single layers read beside their input (`difftest.cases.numbers.Batch`)."""

NO_EXTRAS: Extras = MappingProxyType({})


class Reader(nn.Module):
    """A module whose `forward` is given the extras too."""


class Chain(nn.Sequential):
    """Layers in order; the extras go to those that read them."""

    def forward(self, inputs: Tensor, extras: Extras = NO_EXTRAS) -> Tensor:
        """(batch, [sequence,] width) to the same with the last layer's width."""
        for layer in self:
            inputs = _through(layer, inputs, extras)
        return inputs


class Adjusted(Chain):
    """A chain whose layers are given their input times the factor of its row, plus the row's offset.

    As far as there are such extras; token ids stay as they are.
    """

    def forward(self, inputs: Tensor, extras: Extras = NO_EXTRAS) -> Tensor:
        """As `Chain.forward`."""
        for layer in self:
            if inputs.is_floating_point():
                by_row = (-1, *[1] * (inputs.dim() - 1))
                inputs = inputs * extras["factors"].view(by_row) if "factors" in extras else inputs
                inputs = inputs + extras["offsets"].view(by_row) if "offsets" in extras else inputs
            inputs = _through(layer, inputs, extras)
        return inputs


def _through(layer: nn.Module, inputs: Tensor, extras: Extras) -> Tensor:
    wrapped = getattr(layer, "module", layer)  # FSDP1 puts a wrapper around a block
    output: Tensor = layer(inputs, extras) if isinstance(wrapped, Reader) else layer(inputs)
    return output


class Opaque(nn.Sequential):
    """A module of the user's, which is given its inputs as it names them: positions, keywords or a dict."""

    names: tuple[str, ...] = ("0",)
    takes_dict = False

    def forward(self, inputs: Tensor, extras: Extras = NO_EXTRAS) -> Any:  # noqa: ANN401  the user's choice
        """What the module returns; `extras` are all inputs but the first."""
        first, *others = self.names
        given = {first: inputs, **{name: extras[name] for name in others}}
        if self.takes_dict:
            return self[0](given)
        positional = [tensor for name, tensor in given.items() if name.isdigit()]
        keywords = {name: tensor for name, tensor in given.items() if not name.isdigit()}
        return self[0](*positional, **keywords)


class Program(nn.ModuleList):
    """Operators in order. Each is given all tensors so far by name: every operand, and earlier results."""

    def forward(self, begins: Callable[[int], None], *, copied: bool) -> dict[str, Any]:
        """Every operand and every result by full name, as they are when all operators have run.

        `begins` is called with the index of each operator before it runs. `copied`: operators get copies of
        the operands that require a gradient.
        """
        tensors: dict[str, Any] = {}
        operators: Iterable[Any] = self
        for index, operator in enumerate(operators):
            begins(index)
            tensors |= operator.operands(copied=copied)
            tensors |= operator(tensors)
        return tensors


def by_heads(projected: Tensor, head_dim: int, group: int = 1) -> Tensor:
    """(batch, positions, heads * head_dim) to (batch, heads * group, positions, head_dim).

    Every head is repeated `group` times in a row.
    """
    heads: Tensor = projected.unflatten(-1, (-1, head_dim)).transpose(1, 2)
    return heads if group == 1 else heads.repeat_interleave(group, dim=1)
