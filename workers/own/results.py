"""What a user's module returns and keeps: all floating-point tensors of its outputs by place, and buffers.

A place is a path of keys, positions and attributes, such as `past.0.key`. What a tensor is over the rows of a
batch is tried once, with halves (`workers.own.rows`), and tells how ranks that have rows of their own make
the whole batch's tensor of theirs.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from difftest.cases.layers.own import Buffer, OverRows, Own
from difftest.cases.schema import DOTTED
from difftest.ground.errors import UsageError

MOST_DEPTH = 8
"""How deep outputs are searched for tensors."""

CLOSED = (str, bytes, type, nn.Module, torch.Generator)
"""What is not searched."""

MOST_ELEMENTS = 1 << 16
"""The largest buffer that is compared although no step changes it: a mask may have as many as all weights."""

ROUNDING = 1e-9
"""How far float64 results may be apart that should be equal, relative to the greatest."""


def floats(outputs: Any) -> dict[str, Tensor]:  # noqa: ANN401  what the user's module returns
    """The floating-point tensors in what a module returns, by their places, the one to compare first.

    A tensor without dims, which is a loss that the module returns too, comes behind the others. `UsageError`
    where there is none.
    """
    there: dict[str, Tensor] = {}
    for place, tensor in tensors(outputs):
        if tensor.is_floating_point() and all(tensor is not one for one in there.values()):
            there.setdefault(place if re.fullmatch(DOTTED, place) else _plain(place), tensor)
    if there:
        return dict(sorted(there.items(), key=lambda item: not item[1].dim()))
    msg = f"the module returns {type(outputs).__name__} without a floating-point tensor"
    raise UsageError(msg)


def hidden(outputs: Any) -> bool:  # noqa: ANN401
    """Whether some of these tensors are in an object in which torch finds none, such as a dataclass."""
    there = {id(leaf) for leaf in _pytree.tree_leaves(outputs)}
    return any(id(tensor) not in there for _, tensor in tensors(outputs))


def _plain(place: str) -> str:
    """The place with underscores for what no name of a tensor has."""
    return ".".join(
        part if part.isdigit() else re.sub(r"\W|^(?=\d)", "_", part, flags=re.ASCII) or "_"
        for part in place.split(".")
        if part
    )


def tensors(value: Any) -> Iterator[tuple[str, Tensor]]:  # noqa: ANN401
    """The tensors in a value by place: in dicts, sequences, dataclasses and other objects that hold some."""
    return _tensors(value, "", set())


def _tensors(value: Any, place: str, above: set[int]) -> Iterator[tuple[str, Tensor]]:  # noqa: ANN401
    """As `tensors`, of a value at a place; `above` are the objects that it is in."""
    if isinstance(value, Tensor):
        yield place or "0", value
    elif len(above) < MOST_DEPTH and id(value) not in above and not isinstance(value, CLOSED):
        for name, inner in _inside(value):
            yield from _tensors(inner, f"{place}.{name}" if place else str(name), above | {id(value)})


def _inside(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, Sequence):
        yield from enumerate(value)
    elif dataclasses.is_dataclass(value):
        yield from ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    elif hasattr(value, "__dict__") and not callable(value):
        yield from vars(value).items()


def further_results(layer: Own, outputs: Any, share: float, *, apart: bool) -> dict[str, Tensor]:  # noqa: ANN401
    """What is compared of a module's outputs behind the first, by place: rows first, means times `share`.

    `share` is that of the rows at hand in the batch. `apart`: the module had those alone, and then lacks what
    depends on all.
    """
    if not layer.results:
        return {}
    tensors, further = floats(outputs), {}
    for place, over in layer.results.items():
        if place in tensors and not (over == "all" and apart):
            tensor = tensors[place]
            scaled = tensor * share if over == "mean" and share != 1.0 else tensor
            further[place] = scaled.movedim(over, 0) if isinstance(over, int) else scaled
    return further


def joined_results(
    layer: Own, outputs: Sequence[Mapping[str, Tensor]], shares: Sequence[float]
) -> dict[str, Tensor]:
    """What batches of several ranks give, as one: rows one after another, and means by the ranks' `shares`.

    What is the same for all is that of the first; what depends on all rows of a batch is left out.
    """
    joined = {}
    for place in outputs[0]:
        over, parts = (layer.results[place] if place else 0), [one[place] for one in outputs]
        if isinstance(over, int):
            joined[place] = torch.cat(parts)
        elif over != "all":
            pairs = zip(parts, shares, strict=True)
            joined[place] = parts[0] if over == "same" else torch.stack([p * s for p, s in pairs]).sum(0)
    return joined


def over_rows(whole: Tensor, halves: Sequence[Tensor | None]) -> OverRows:
    """What a tensor is over the rows of a batch, from that of the whole batch and those of its halves.

    A half is None where it did not run, or gave no such tensor.
    """
    parts = [half for half in halves if half is not None and half.dim() == whole.dim()]
    both = len(parts) == len(halves)
    for dim in range(whole.dim()):
        rows = sum(part.shape[dim] for part in parts)
        if both and rows == whole.shape[dim] and close(_joined(parts, dim), whole):
            return dim
    if both and all(part.shape == whole.shape for part in parts):
        if all(close(part, whole) for part in parts):
            return "same"
        if close(torch.stack(parts).mean(0), whole):
            return "mean"
    return "all"


def _joined(parts: Sequence[Tensor], dim: int) -> Tensor:
    """The parts one after another along a dim; of none where their other dims differ."""
    others = {(*part.shape[:dim], *part.shape[dim + 1 :]) for part in parts}
    return torch.cat(list(parts), dim) if len(others) == 1 else torch.empty(0)


def close(one: Tensor, other: Tensor) -> bool:
    """Whether two float64 results are equal but for rounding."""
    if one.shape != other.shape:
        return False
    return not one.numel() or bool(
        (one - other).abs().max() <= ROUNDING * max(1e-30, float(other.abs().max()))
    )


def buffers(before: nn.Module, after: nn.Module, halves: Sequence[nn.Module | None]) -> dict[str, Buffer]:
    """The buffers that are compared after each step, by name; `after` has run the whole batch once.

    One with infinities or NaN, as a mask may have, is left out, and so is a large one that no step changes.
    """
    initial = dict(before.named_buffers())
    parts = [{} if half is None else dict(half.named_buffers()) for half in halves]
    kept = {}
    for name, value in after.named_buffers():
        there = initial.get(name)
        changed = there is None or there.shape != value.shape or not close(_wide(there), _wide(value))
        if not value.numel() or not torch.isfinite(value).all():
            continue
        if changed or value.numel() <= MOST_ELEMENTS:
            apart = all(name in part and close(_wide(part[name]), _wide(value)) for part in parts)
            kept[name] = Buffer(shape=tuple(value.shape), dtype=_named(value), of_all_rows=not apart)
    return kept


def _wide(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)


def _named(tensor: Tensor) -> str:
    """The name of a dtype in torch; empty for that of the case."""
    if tensor.is_floating_point():
        return ""
    return "complex64" if tensor.is_complex() else str(tensor.dtype).removeprefix("torch.")
