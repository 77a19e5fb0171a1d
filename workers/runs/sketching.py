"""Linear sketches of tensors: a few numbers by sign and bucket, keyed by the global index of each element.

Sketches of shards and of partial sums add up to that of the whole tensor, and the norm of the difference of
two sketches is about that of the tensors. An element's sign is a hash of its global index. Its bucket is the
residue of its index along the two longest dims: any choice of buckets leaves the estimate unbiased, and
residues need neither scatter nor atomic additions, whose order changes from run to run on a GPU.

The size of a batch differs between layouts and between micro-batches, so dim 0 of a batch is only bucketed
where a tensor has too few other dims.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from difftest.runs.layout import BUCKETS

SIDE = 8
"""The buckets along one of two dims."""

CHUNK = 1 << 18
"""How many elements are summed at a time on a CPU, whose cache holds them; each time takes 0.1 ms more."""

CHUNK_ON_DEVICE = 1 << 26
"""The same on a device, where each operation costs a launch: 0.8 GB while a block is summed."""

SIGNS_ON_DEVICE = 1 << 24
"""How many signs are made at a time on a device: some 30 kernels, and 0.7 GB of int64 numbers."""

MOST_SIGN_BYTES = 1 << 28
"""What the signs of recent shapes may take on a device; one shape that is larger is kept beside them.

An element's is a byte.
"""

_FIRST, _SECOND, _THIRD = -7046029254386353131, -4658895280553007687, -7723592293110705685
"""The constants of splitmix64, as signed numbers."""


class LocalBlock(NamedTuple):
    """A block of a rank's local tensor: its slices there, and where it begins in the whole.

    `sizes` are those of the block where the local tensor is flat.
    """

    local: tuple[slice, ...]
    start: tuple[int, ...]
    sizes: tuple[int, ...] = ()

    def of(self, tensor: Tensor) -> Tensor:
        """The block of a local tensor."""
        block = tensor[self.local]
        return block.reshape(self.sizes) if self.sizes else block


def buckets(shape: Sequence[int], *, batched: bool) -> tuple[int, ...]:
    """The number of buckets along each dim of a tensor of this whole shape; their product is `BUCKETS`.

    The size of dim 0 of a batch has no influence.
    """
    sizes = [math.inf if batched and dim == 0 else size for dim, size in enumerate(shape)]
    if batched and len(sizes) > 2:  # noqa: PLR2004  a batch with two dims of its own
        sizes[0] = -1
    order = sorted(range(len(sizes)), key=lambda dim: (-sizes[dim], dim))
    counts = [1] * len(sizes)
    second = min(SIDE, 1 << (int(min(sizes[order[1]], SIDE)).bit_length() - 1)) if len(order) > 1 else 1
    counts[order[0]] = BUCKETS // max(1, second)
    if len(order) > 1:
        counts[order[1]] = max(1, second)
    return tuple(counts)


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """How far apart neighbours along each dim are in the whole tensor."""
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))


def mixed(indices: Tensor) -> Tensor:
    """Hashes of int64 numbers (splitmix64), whose bits are as good as random."""
    z = indices * _FIRST
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * _SECOND
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * _THIRD
    return z ^ ((z >> 31) & ((1 << 33) - 1))


class Signs:
    """The signs of elements, kept by shape: layers of a model have few different ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], Tensor] = OrderedDict()
        self._bytes = 0
        self._larger: dict[tuple[object, ...], Tensor] = {}

    def of(self, sizes: Sequence[int], start: Sequence[int], steps: Sequence[int], like: Tensor) -> Tensor:
        """Signs (int8, 1 or -1) of a block that begins at `start` of a tensor of such strides."""
        key = (tuple(sizes), tuple(start), tuple(steps), like.device)
        if math.prod(sizes) > MOST_SIGN_BYTES:  # all others would have to go
            if key not in self._larger:
                self._larger.clear()
                self._larger[key] = self._made(sizes, start, steps, like.device)
            return self._larger[key]
        if key not in self._kept:
            self._kept[key] = self._made(sizes, start, steps, like.device)
            self._bytes += math.prod(sizes)
            while self._bytes > MOST_SIGN_BYTES:
                _, left = self._kept.popitem(last=False)
                self._bytes -= left.numel()
        self._kept.move_to_end(key)
        return self._kept[key]

    @staticmethod
    def _made(
        sizes: Sequence[int], start: Sequence[int], steps: Sequence[int], device: torch.device
    ) -> Tensor:
        where = (
            torch.device("cpu") if device.type == "xla" else device
        )  # a graph would compute them each time
        signs = torch.empty(tuple(sizes), dtype=torch.int8, device=where)
        along = [
            ((torch.arange(size, device=where) + first) * step).reshape(-1, *[1] * (len(sizes) - 1 - dim))
            for dim, (size, first, step) in enumerate(zip(sizes, start, steps, strict=True))
        ]
        for block in _blocks(sizes, CHUNK if where.type == "cpu" else SIGNS_ON_DEVICE):
            index = torch.zeros((), dtype=torch.int64, device=where)
            for indices, own in zip(along, block, strict=True):
                index = index + indices[own]
            signs[block] = 1 - 2 * (mixed(index) < 0).to(torch.int8)
        return signs.to(device)


def numbers(
    x: Tensor, start: Sequence[int], steps: Sequence[int], counts: Sequence[int], signs: Signs
) -> Tensor:
    """The row of a block: sketch, sum of squares, least, greatest, NaNs, infinities and number of elements.

    Float64, on the block's device; float32 where a device has no float64.
    """
    precise = torch.float32 if x.device.type == "mps" else torch.float64
    if not x.numel():
        ends = torch.tensor([0.0, math.inf, -math.inf, 0.0, 0.0, 0.0], dtype=precise, device=x.device)
        return torch.cat([torch.zeros(BUCKETS, dtype=precise, device=x.device), ends])
    sign = signs.of(x.shape, start, steps, x)
    if not x.dtype.is_floating_point:
        x = x.to(precise)
    blocks = [*_blocks(x.shape, CHUNK if x.device.type == "cpu" else CHUNK_ON_DEVICE)]
    room = x.new_empty(x[blocks[0]].numel(), dtype=precise) if x.device.type == "cpu" else None
    sketches, squares = [], []
    for block in blocks:
        signed = _signed(x[block], sign[block], precise, room)
        flat = signed.reshape(-1)
        squares.append(torch.dot(flat, flat))
        begin = [first + own.start for first, own in zip(start, block, strict=True)]
        sketches.append(_folded(signed, begin, counts))
    square = torch.stack(squares).sum()
    least, greatest = torch.aminmax(x)
    counted = (*_not_finite(x, blocks, square), torch.full_like(square, x.numel()))
    return torch.cat(
        [
            torch.stack(sketches).sum(0),
            torch.stack([square, least.to(precise), greatest.to(precise), *counted]),
        ]
    )


def _signed(values: Tensor, sign: Tensor, precise: torch.dtype, room: Tensor | None) -> Tensor:
    """The elements with their signs, exact in any dtype; in `room` where that is cheaper than new memory."""
    if room is None:
        return (values * sign).to(precise)
    return torch.mul(values, sign, out=room[: values.numel()].view(values.shape))


def _not_finite(x: Tensor, blocks: Sequence[tuple[slice, ...]], square: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of NaNs and of infinities. On a CPU they are only counted where there may be some."""
    if x.device.type == "cpu" and square.isfinite():
        return torch.zeros_like(square), torch.zeros_like(square)
    nans = torch.stack([x[block].isnan().sum() for block in blocks]).sum()
    infs = torch.stack([x[block].isinf().sum() for block in blocks]).sum()
    return nans.to(square.dtype), infs.to(square.dtype)


def _blocks(shape: Sequence[int], most: int) -> Iterator[tuple[slice, ...]]:
    """Blocks of so many elements at most, or of one row of the last dim."""
    inner = math.prod(shape[1:])
    if inner > most and len(shape) > 1:
        for index in range(shape[0]):
            for rest in _blocks(shape[1:], most):
                yield (slice(index, index + 1), *rest)
        return
    height = max(1, most // max(1, inner))
    for first in range(0, shape[0], height):
        yield (slice(first, min(first + height, shape[0])), *(slice(0, size) for size in shape[1:]))


def _folded(x: Tensor, start: Sequence[int], counts: Sequence[int]) -> Tensor:
    """The sums of `x` by bucket: those along a dim are the residues of the index in the whole tensor.

    The dim that becomes the smallest comes first, so that the others are summed over fewer elements.
    """
    for dim in sorted(range(x.dim()), key=lambda dim: -x.shape[dim] / counts[dim]):
        x = x.sum(dim, keepdim=True) if counts[dim] == 1 else _residues(x, dim, start[dim], counts[dim])
    return x.reshape(-1)


def _residues(x: Tensor, dim: int, start: int, count: int) -> Tensor:
    """The sums along a dim by the residue of the index, which begins at `start`: `count` of them."""
    size, first = x.shape[dim], start % count
    head = min(-start % count, size)
    middle = (size - head) // count * count
    tail = size - head - middle
    sums: Tensor = x.narrow(dim, head, middle).unflatten(dim, (-1, count)).sum(dim)
    if head:
        sums.narrow(dim, first, head).add_(x.narrow(dim, 0, head))
    if tail:
        sums.narrow(dim, 0, tail).add_(x.narrow(dim, head + middle, tail))
    return sums
