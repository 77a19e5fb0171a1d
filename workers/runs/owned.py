"""The parameters and buffers of a model, by the names that the unwrapped model has.

FSDP1 puts parameters together into flat ones, of which a rank has a range. Each range is some elements of an
original parameter, which has a shape of its own.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from difftest.runs.align import path_of


@dataclass(frozen=True, slots=True)
class FlatRange:
    """The elements from `begin` to `end` of a flattened tensor of this shape."""

    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A parameter, or what a flat parameter has of it: `local` are its elements there."""

    name: str
    parameter: nn.Parameter
    range: FlatRange | None = None
    local: slice | None = None

    @property
    def value(self) -> Tensor:
        """What this rank has of it."""
        return self._own(self.parameter)

    @property
    def gradient(self) -> Tensor | None:
        """What this rank has of its gradient."""
        return None if self.parameter.grad is None else self._own(self.parameter.grad)

    def _own(self, tensor: Tensor) -> Tensor:
        return tensor if self.local is None else tensor[self.local]


def owned(models: Sequence[nn.Module]) -> list[Owned]:
    """The parameters of some models, in order of definition."""
    return [one for model in models for one in _owned(model)]


def buffers(models: Sequence[nn.Module]) -> Iterator[tuple[str, Tensor]]:
    """The buffers of numbers, which a training may change as it changes parameters."""
    for model in models:
        for name, buffer in model.named_buffers():
            if buffer.dim() and buffer.dtype.is_floating_point:
                yield path_of(name), buffer


def _owned(model: nn.Module) -> Iterator[Owned]:
    by_name = _ranges(model)
    for name, parameter in model.named_parameters():
        path = path_of(name)
        if not hasattr(parameter, "_shard_param_infos"):  # as FSDP1's flat parameters have
            where = by_name.get(path)
            if path not in by_name or (where and tuple(parameter.shape) == where.shape):
                yield Owned(name=path, parameter=parameter)
            elif where:
                yield Owned(name=path, parameter=parameter, range=where)
            continue
        flat: Any = parameter
        head = path.rpartition(".")[0]
        for own, shape, info in zip(flat._fqns, flat._shapes, flat._shard_param_infos, strict=True):  # noqa: SLF001
            if info.in_shard:
                local = slice(info.offset_in_shard, info.offset_in_shard + info.numel_in_shard)
                full = f"{head}.{own}" if head else own
                yield Owned(name=path_of(full), parameter=parameter, range=_range(shape, info), local=local)


def _ranges(model: nn.Module) -> dict[str, FlatRange | None]:
    """What this rank has of the parameters that FSDP1 leaves their names (`use_orig_params`).

    None where it has nothing.
    """
    by_name: dict[str, FlatRange | None] = {}
    for path, module in model.named_modules():
        handle: Any = getattr(module, "_handle", None)
        flat = getattr(handle, "flat_param", None)
        for own, shape, info in zip(
            getattr(flat, "_fqns", ()),
            getattr(flat, "_shapes", ()),
            getattr(flat, "_shard_param_infos", ()),
            strict=True,
        ):
            full = f"{path}.{own}" if path else own
            by_name[path_of(full)] = _range(shape, info) if info.in_shard else None
    return by_name


def _range(shape: Sequence[int], info: Any) -> FlatRange:  # noqa: ANN401  torch's _ShardParamInfo
    """A scalar is a vector of one."""
    whole = tuple(shape) or (1,)
    if info.numel_in_shard == math.prod(whole):
        return FlatRange(whole, 0, math.prod(whole))
    return FlatRange(whole, info.intra_param_start_idx, info.intra_param_end_idx + 1)


def rectangles(
    shape: Sequence[int], begin: int, end: int, before: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The blocks that the elements from `begin` to `end` of a flattened tensor are, in their order.

    Each is where it begins and its sizes. `before` are the indices along the dims before those of `shape`.
    """
    if begin == end:
        return
    ones = (1,) * len(before)
    if len(shape) == 1:
        yield (*before, begin), (*ones, end - begin)
        return
    inner = math.prod(shape[1:])
    first, in_first = divmod(begin, inner)
    last, in_last = divmod(end, inner)
    if first == last:
        yield from rectangles(shape[1:], in_first, in_last, (*before, first))
        return
    if in_first:
        yield from rectangles(shape[1:], in_first, inner, (*before, first))
        first += 1
    if first < last:
        yield (*before, first, *(0,) * (len(shape) - 1)), (*ones, last - first, *shape[1:])
    yield from rectangles(shape[1:], 0, in_last, (*before, last))
