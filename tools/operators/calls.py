"""What an entry of torch's OpInfo database calls, as a dotted name, and with which arguments.

Most entries are functions that have a name. The others wrap one in a lambda; a sample of them is run once,
and the function of torch that it calls is recorded.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

SPACES = (
    "",
    "nn.functional",
    "linalg",
    "special",
    "fft",
    "masked",
)
"""Where below torch a function is searched for."""


PROPERTIES = ("T", "H", "mT", "mH", "real", "imag")
"""The attributes of a tensor that are operators."""


@dataclass(frozen=True)
class Call:
    """A callable's dotted name and what it is given."""

    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


class NotRecordedError(Exception):
    """The call cannot be written down; the text says why."""


class _Recorder(TorchFunctionMode):
    """Records the outermost calls of torch, with the tensors they returned."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def __torch_function__(
        self,
        func: Any,  # noqa: ANN401
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result


def called(function: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Call:  # noqa: ANN401
    """The call that `function` makes of torch; `NotRecordedError` if it is not one with a name."""
    if name := name_of(function):
        return Call(name, arguments, options)
    with _Recorder() as recorder:
        function(*arguments, **options)
    calls = [one for one in recorder.calls if "__get__" not in str(one[0]) or _property(one[0])]
    if len(calls) > 1 and calls[0][0] is torch.Tensor.clone and calls[1][1][0] is calls[0][3]:
        inner, args, kwargs, _ = calls[1]  # an operator in place, on a clone
        calls = [(inner, (calls[0][1][0], *args[1:]), kwargs, None), *calls[2:]]
    if len(calls) != 1:
        names = ", ".join(resolve_name(one[0]) or str(one[0]) for one in recorder.calls)
        msg = f"it makes {len(calls)} calls of torch: {names[:80]}"
        raise NotRecordedError(msg)
    inner, args, kwargs, _ = calls[0]
    name = _property(inner) or name_of(inner)
    if not name:
        msg = f"{inner} has no name"
        raise NotRecordedError(msg)
    return Call(name, args, kwargs)


def name_of(function: Any) -> str:  # noqa: ANN401
    """The dotted name of `function`, such as `torch.add` or `Tensor.add_`; empty if it has none."""
    if isinstance(function, torch._ops.OpOverload):
        return f"torch.ops.{function!s}"
    if isinstance(function, torch._ops.OpOverloadPacket):
        return f"torch.ops.{str(function).replace('::', '.')}"
    return _names().get(id(function), "")


def method_name(function: Any) -> str:  # noqa: ANN401
    """The dotted name of a method of tensors; empty if `function` is none."""
    own = getattr(function, "__name__", "")
    return f"Tensor.{own}" if own and getattr(torch.Tensor, own, None) is function else ""


def _property(function: Any) -> str:  # noqa: ANN401
    text = resolve_name(function) or ""
    if not any(text.endswith(f".{name}.__get__") for name in PROPERTIES):
        return ""
    return text.removeprefix("torch.").removesuffix(".__get__") if text.endswith(".__get__") else ""


@functools.cache
def _names() -> Mapping[int, str]:
    names: dict[int, str] = {}
    for name in dir(torch.Tensor):
        function = getattr(torch.Tensor, name, None)
        if callable(function):
            names[id(function)] = f"Tensor.{name}"
    for space in reversed(SPACES):
        module = functools.reduce(getattr, filter(None, space.split(".")), torch)
        prefix = f"torch.{space}".removesuffix(".")
        for name in dir(module):
            function = getattr(module, name, None)
            if callable(function):
                names[id(function)] = f"{prefix}.{name}"
    return names
