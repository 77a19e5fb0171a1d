"""Another forward in the place of a module's own."""

from collections.abc import Callable
from types import MethodType
from typing import Any

from torch import nn


def replace_forward(module: nn.Module, forward: Callable[..., Any]) -> None:
    """Makes `forward` the module's, as a method: torch_xla's FSDP refuses one whose forward is a function."""

    def method(_module: nn.Module, *inputs: Any, **named: Any) -> Any:  # noqa: ANN401  the module's
        return forward(*inputs, **named)

    module.forward = MethodType(method, module)
