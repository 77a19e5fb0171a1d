"""One operator of a program: a module that owns the operator's tensors and calls it.

It maps no activation. It is given every tensor so far by its full name, and gives its results by theirs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from difftest.cases.layers import operator
from difftest.cases.layers.operator import Operand
from workers.training.arguments import Resolver, called
from workers.training.dtypes import NUMBERS
from workers.training.layers import Plan

OUT = "out"
"""The option by which an operator is given the tensor to write its result into."""

Tensors = Mapping[str, Any]
"""Tensors by full name; a result may be a number."""


class Operator(nn.Module):
    """The operator at `path`. Its float operands are parameters, the others buffers."""

    def __init__(self, layer: operator.Operator, path: str, plan: Plan) -> None:
        super().__init__()
        self.layer, self.path, self.plan = layer, path, plan
        for name, operand in layer.operands.items():
            empty = torch.zeros(operand.shape, dtype=plan.dtypes.named(operand.dtype))
            if operand.is_float:
                self.register_parameter(name, nn.Parameter(empty, requires_grad=operand.gradient))
            else:
                self.register_buffer(name, empty)

    def operands(self, *, copied: bool) -> dict[str, Tensor]:
        """The operands by full name, as the operator gets them.

        `copied`: those that require a gradient are clones, because autograd forbids writing to leaves.
        """
        return {
            f"{self.path}.{name}": self._given(getattr(self, name), operand, copied=copied)
            for name, operand in self.layer.operands.items()
        }

    def _given(self, tensor: Tensor, operand: Operand, *, copied: bool) -> Tensor:
        if operand.memory != "contiguous":
            return self.plan.operators.lay_out(tensor, operand.memory)
        return tensor.clone() if copied and tensor.requires_grad else tensor

    def function(self, resolver: Resolver) -> Callable[..., Any]:
        """What is called."""
        return called(resolver.dtypes.conversion(self.layer.call))

    def forward(self, tensors: Tensors) -> dict[str, Any]:
        """The results by full name, given the tensors of this operator and of those before it."""
        layer, resolver = self.layer, Resolver(self.path, tensors, self.plan.dtypes)
        arguments = [resolver.resolved(argument) for argument in layer.arguments]
        options = {name: resolver.resolved(argument) for name, argument in layer.options.items()}
        if layer.form == "out":
            options.setdefault(OUT, tensors.get(f"{self.path}.{OUT}"))
        # Autograd does not follow what is written into a given tensor, and torch refuses to try.
        with torch.no_grad() if layer.form == "out" else nullcontext():
            result = self.function(resolver)(*arguments, **options)
        if result is None and layer.form == "inplace":  # some operators of lists return nothing
            result = arguments[0]
        return dict(_named(result, f"{self.path}.output"))


def module(layer: operator.Operator, path: str, plan: Plan) -> nn.Module:
    """The operator, with zeros in place of its values."""
    return Operator(layer, path, plan)


def _named(result: Any, name: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401  what an operator gives
    """The tensors and numbers of a result by name; those of several by their position.

    What is neither, such as a dtype or None, is not compared.
    """
    parts = list(_flat(result))
    for index, part in enumerate(parts):
        if isinstance(part, (Tensor, *NUMBERS)):
            yield name if part is result else f"{name}.{index}", part


def _flat(result: Any) -> Iterator[Any]:  # noqa: ANN401  what an operator gives
    """What a result consists of, in order."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from _flat(part)
    else:
        yield result
