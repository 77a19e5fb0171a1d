"""One of torch's own modules in a program, called with the operands as its parameters and buffers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from difftest.cases.layers import module as cases
from workers.training.arguments import Resolver
from workers.training.layers import Plan
from workers.training.layers.operator import Operator

PREFIX = "torch.nn."


class Module(Operator):
    """The module at `path`; its state are operands."""

    layer: cases.Module

    def function(self, resolver: Resolver) -> Callable[..., Any]:
        """The module, made as users make it, with the operands in place of its state.

        It is made anew for each call, without memory for the tensors that it makes itself.
        """
        made = self.layer.made
        given = [resolver.resolved(argument) for argument in made.arguments]
        options = {name: resolver.resolved(argument) for name, argument in made.options.items()}
        with torch.device("meta"):
            module = class_named(self.layer.call)(*given, **options).train(made.training)
        state = {name: resolver.tensors[f"{self.path}.{own}"] for name, own in made.state.items()}

        def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401  as the module's forward
            return functional_call(module, state, arguments, named)

        return call


def class_named(call: str) -> type[nn.Module]:
    """The class of torch.nn that `call` names, as it is in this process; `ValueError` for anything else."""
    candidate = getattr(nn, call.removeprefix(PREFIX), None) if call.startswith(PREFIX) else None
    if isinstance(candidate, type) and issubclass(candidate, nn.Module):
        return candidate
    msg = f"{call!r} is no module of torch.nn"
    raise ValueError(msg)


def module(layer: cases.Module, path: str, plan: Plan) -> nn.Module:
    """The module, with zeros in place of its values."""
    return Module(layer, path, plan)
