"""Faults that tests plant into training scripts, from a step on, in one module, maybe on one rank."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

Change = Callable[[Tensor], Tensor]
Prepare = Callable[[nn.Module, int, int], None]


def planted(step: int, rank: int | None, plant: Callable[[nn.Module], None]) -> Prepare:
    """A script's `prepare` that plants a fault before a step, on one rank or on all."""

    def prepare(model: nn.Module, now: int, own: int) -> None:
        if now == step and rank in (None, own):
            plant(model)

    return prepare


def output(path: str, change: Change) -> Callable[[nn.Module], None]:
    """The output of a module is changed."""

    def plant(model: nn.Module) -> None:
        module = model.get_submodule(path)
        forward = module.forward

        def changed(*given: Any, **named: Any) -> Tensor:  # noqa: ANN401
            return change(forward(*given, **named))

        module.forward = changed

    return plant


def backward(path: str, change: Change) -> Callable[[nn.Module], None]:
    """The gradient with respect to a module's input is changed."""

    def plant(model: nn.Module) -> None:
        module = model.get_submodule(path)
        forward = module.forward

        def changed(x: Tensor) -> Tensor:
            copy = x * 1
            copy.register_hook(change)
            result: Tensor = forward(copy)
            return result

        module.forward = changed

    return plant


def gradient(name: str, change: Change) -> Callable[[nn.Module], None]:
    """A parameter's gradient is changed."""

    def plant(model: nn.Module) -> None:
        model.get_parameter(name).register_hook(change)

    return plant


def parameter(name: str, change: Change) -> Callable[[nn.Module], None]:
    """A parameter is changed between two steps."""

    def plant(model: nn.Module) -> None:
        value = model.get_parameter(name).data
        value.copy_(change(value))

    return plant


def attribute(path: str, name: str, value: object) -> Callable[[nn.Module], None]:
    """A module has another argument."""

    def plant(model: nn.Module) -> None:
        setattr(model.get_submodule(path), name, value)

    return plant
