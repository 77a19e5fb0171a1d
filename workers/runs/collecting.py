"""The rows of one step: sketches on the devices until the step ends, then one transfer to the host.

On eager devices a tensor is sketched when it is computed. On XLA it is kept until the step is synchronised
and is sketched in a graph of its own, so that the program's graph gains results and no operators.
"""

import fnmatch
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from difftest.runs import layout
from difftest.runs.layout import BUCKETS, ELEMENTS, GREATEST, LEAST, SQUARES, WIDTH, Floats
from workers.runs import sketching
from workers.runs.owned import FlatRange
from workers.runs.placing import BatchPlace, RankShare, placed
from workers.runs.sketching import Signs
from workers.torch.arrays import as_array

LOSS, DIGEST = "loss", "digest"
"""Kinds of rows that are no tensor's: a number, and three hashes in six halves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTensor:
    """A tensor of this step: what the file says of it, and its row or, on XLA, what computes it later."""

    about: layout.Tensor
    row: Tensor | Callable[[], Tensor]
    factor: float = 1.0


@dataclass(slots=True, kw_only=True)
class Collected:
    """Collects the rows of a step. `whole` are patterns of owners whose tensors are kept whole.

    `averaging` is what a wrapper multiplies the ranks' gradients with before it adds them up.
    """

    batch: BatchPlace = field(default_factory=BatchPlace)
    averaging: float = 1.0
    whole: Sequence[str] = ()
    signs: Signs = field(default_factory=Signs)
    kept: list[KeptTensor] = field(default_factory=list)
    arrays: dict[str, Tensor] = field(default_factory=dict)

    def add(  # noqa: PLR0913  what the file says of a tensor
        self,
        kind: str,
        owner: str,
        tensor: Tensor,
        *,
        place: str = "",
        batched: bool = False,
        microbatch: int = 0,
        factor: float = 1.0,
        share: layout.NamedShare | None = None,
        flat: FlatRange | None = None,
        users: Sequence[str] = (),
    ) -> None:
        """Adds a tensor. `share` names this rank's share of a plain tensor that is a sum over ranks.

        `flat` says which elements of a flattened parameter it is, `users` which modules took the output of
        which it is the gradient.
        """
        with torch.no_grad(), torch.autocast(tensor.device.type, enabled=False):
            located = placed(tensor, self.batch if batched else None, microbatch, flat)
            lazy = located.local.device.type == "xla"
            if lazy:  # what changes the tensor in place later must not change this
                located = replace(located, local=located.local.clone())
            about = layout.Tensor(
                id=-1,
                kind=kind,
                owner=owner,
                place=place,
                shape=located.shape,
                dtype=str(tensor.dtype).removeprefix("torch."),
                piece=share or located.piece,
                batched=batched,
                comparable=bool(located.parts) or not located.local.numel(),
                mesh=located.mesh,
                cut=located.cut,
                users=tuple(users),
            )
            row = partial(self._row, located, batched=batched)
            if self.keeps(owner):
                name = f"{kind}:{owner}{place}" + (f"#{microbatch}" if microbatch else "")
                self.arrays[name] = located.local.clone()
            self.kept.append(
                KeptTensor(about=about, row=row if lazy else row(), factor=factor * located.factor)
            )

    def keeps(self, owner: str) -> bool:
        """Whether the tensors of a module or parameter are kept whole."""
        return any(fnmatch.fnmatchcase(owner, pattern) for pattern in self.whole)

    def add_numbers(self, kind: str, name: str, tensor: Tensor, numbers: Callable[[Tensor], Tensor]) -> None:
        """Adds a few `numbers` of a tensor, which go to the host with the rows."""
        about = layout.Tensor(id=-1, kind=kind, owner=name, shape=(), dtype="")
        kept = tensor.detach()
        lazy = kept.device.type == "xla"
        row = partial(_padded, numbers, kept.clone() if lazy else kept)
        with torch.no_grad():
            self.kept.append(KeptTensor(about=about, row=row if lazy else row()))

    def _row(self, located: RankShare, *, batched: bool) -> Tensor:
        steps = sketching.strides(located.shape)
        counts = sketching.buckets(located.shape, batched=batched)
        rows = [
            sketching.numbers(part.of(located.local), part.start, steps, counts, self.signs)
            for part in located.parts
        ]
        if len(rows) == 1:
            return rows[0]
        if not rows:
            nothing = located.local.new_zeros((0,) * len(located.shape))
            return sketching.numbers(nothing, (0,) * len(located.shape), steps, counts, self.signs)
        stacked = torch.stack(rows)
        row = stacked.sum(0)
        row[LEAST], row[GREATEST] = stacked[:, LEAST].min(), stacked[:, GREATEST].max()
        return row

    def take(self) -> list[tuple[layout.Tensor, Floats]]:
        """What was collected, those of one tensor and share put together, in the order of their first."""
        kept, self.kept = self.kept, []
        if any(not isinstance(one.row, Tensor) for one in kept):
            import torch_xla

            torch_xla.sync()
        with torch.no_grad():
            rows = _on_host([one.row if isinstance(one.row, Tensor) else one.row() for one in kept])
        joined: dict[tuple[object, ...], tuple[layout.Tensor, Floats]] = {}
        for one, row in zip(kept, rows, strict=True):
            key = (*one.about.key, one.about.piece.name)
            own = scaled(row, one.factor) if one.factor != 1.0 else row
            about, before = joined.get(key, (one.about, None))
            joined[key] = about, own if before is None else added(before, own)
        return list(joined.values())

    def take_arrays(self) -> dict[str, Floats]:
        """The whole tensors, on the host."""
        arrays, self.arrays = self.arrays, {}
        return {name: as_array(array.cpu()) for name, array in arrays.items()}


def _padded(numbers: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """A row that begins with some numbers. Those of XLA's tensors, maybe hashes, are the host's work."""
    row = numbers(tensor.cpu() if tensor.device.type == "xla" else tensor).to(torch.float64)
    return torch.nn.functional.pad(row, (0, WIDTH - len(row)))


def _on_host(rows: Sequence[Tensor]) -> list[Floats]:
    """The rows in one transfer from each device."""
    by_device: dict[torch.device, list[int]] = {}
    for index, row in enumerate(rows):
        by_device.setdefault(row.device, []).append(index)
    host: dict[int, Floats] = {}
    for indices in by_device.values():
        matrix = torch.stack([rows[index] for index in indices]).cpu().to(torch.float64).numpy()
        host |= dict(zip(indices, matrix, strict=True))
    return [host[index] for index in range(len(rows))]


def scaled(row: Floats, factor: float) -> Floats:
    """The row of a tensor that was multiplied with `factor`."""
    row = row.copy()
    row[:BUCKETS] *= factor
    row[SQUARES] *= factor * factor
    ends = row[[LEAST, GREATEST]] * factor
    row[LEAST], row[GREATEST] = ends.min(), ends.max()
    return row


def added(first: Floats, second: Floats) -> Floats:
    """The row of two shares of a tensor together."""
    row: Floats = first + second
    row[LEAST] = np.fmin(first[LEAST], second[LEAST])
    row[GREATEST] = np.fmax(first[GREATEST], second[GREATEST])
    row[ELEMENTS] = first[ELEMENTS] + second[ELEMENTS]
    return row


def digest(tensor: Tensor) -> Tensor:
    """Three hashes of the samples of an input, as six float64 halves.

    Of whole samples, of those without their first and of those without their last column. Each is a sum over
    the samples, so it does not depend on their order, and those of ranks and micro-batches add up (modulo
    2**64).
    """
    values = tensor.detach().reshape(tensor.shape[0], -1)
    if values.dtype.is_floating_point:
        values = values.float().view(torch.int32)
    values = values.to(torch.int64)
    ways = (values, values[:, 1:], values[:, :-1])
    hashes = []
    for way in ways:
        position = torch.arange(1, way.shape[1] + 1, device=way.device) << 32
        samples = sketching.mixed(way + position).sum(1)
        hashes.append(sketching.mixed(samples).sum())
    whole = torch.stack(hashes)
    return torch.cat([whole >> 32, whole & 0xFFFFFFFF]).to(torch.float64)


def hashes(row: Floats) -> tuple[int, int, int]:
    """The three hashes of a digest's row, whose halves may be sums over micro-batches."""
    first, second, third = (
        ((int(row[index]) << 32) + int(row[index + 3])) & (2**64 - 1) for index in range(3)
    )
    return first, second, third


def counted(loss: Tensor) -> Tensor:
    """A loss, and a one, whose sum over micro-batches is their number."""
    whole = loss.full_tensor() if hasattr(loss, "full_tensor") else loss
    return torch.stack([whole.reshape(()).to(torch.float64), whole.new_ones((), dtype=torch.float64)])


def finite(value: float) -> float | None:
    """A number that JSON can hold."""
    return value if math.isfinite(value) else None
