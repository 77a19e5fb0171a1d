"""One collective on the ranks' own rows."""

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, TypeAlias

import msgspec

from difftest.cases.layer import MOST_FACTOR, Layer, Removable
from difftest.cases.layout import Layout, Shard
from difftest.cases.ranges import Range, is_dyadic

Operation: TypeAlias = Literal[
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "permute",
    "broadcast",
    "reduce",
    "scatter",
    "gather",
]

SLICED: tuple[Operation, ...] = ("reduce_scatter", "all_to_all", "scatter")
"""The operations that take a slice of the width for every rank of the group."""

REDUCING: tuple[Operation, ...] = ("all_reduce", "reduce_scatter", "reduce")

EXCHANGED: tuple[Operation, ...] = ("all_gather", "reduce_scatter", "all_to_all")
LEARNED: Mapping[str, tuple[Operation, ...]] = {
    "nn": (*EXCHANGED, "all_reduce", "broadcast", "reduce", "scatter", "gather"),
    "functional": (*EXCHANGED, "all_reduce"),
    "plain": EXCHANGED,
}
"""The operations that gradients go through."""


class Collective(Layer, frozen=True, kw_only=True, tag="collective"):
    """One collective over axis number `axis` of `mesh`.

    Every axis of the mesh cuts the batch's rows, outermost first.

    A rank holds (rows, width). `all_gather` puts the group's tensors side by side (width times the group's
    size), `reduce_scatter` leaves each rank its slice of the reduced width, `all_to_all` exchanges slices of
    the width; `permute` shifts to the next rank of the group; `broadcast` takes the tensor of the group's
    first rank, and `scatter` leaves each rank its slice of that. `reduce` gives the reduced tensor, and
    `gather` the tensors side by side, to the first rank alone, and the others zeros. `factor` multiplies the
    result. `form` is how the framework is called: with one tensor, or with a list of them (the width's two
    halves). With `memory` the tensors are every second element of larger ones. `learned`: gradients go
    through it, by `torch.distributed.nn` or by the functional collectives, of which `plain` ones have no
    `_autograd` in their names; it may then stand behind other layers. These alone have a mean, `avg`. Such an
    `all_to_all` may have uneven `parts`: that for the rank which is n places further in the group, in a
    circle, is n + 1 times as wide as a rank's own.
    """

    BETWEEN_RANKS: ClassVar[bool] = True

    operation: Operation
    width: int
    mesh: tuple[int, ...]
    axis: int = 0
    reduction: Literal["sum", "max", "min", "avg"] = "sum"
    factor: float = 1.0
    form: Literal["single", "list"] = "single"
    memory: Literal["strided"] | msgspec.UnsetType = msgspec.UNSET
    learned: Literal["nn", "functional", "plain"] | msgspec.UnsetType = msgspec.UNSET
    parts: Literal["uneven"] | msgspec.UnsetType = msgspec.UNSET

    @property
    def ranks(self) -> int:
        """The size of a group."""
        return self.mesh[self.axis]

    @property
    def slices(self) -> int:
        """Of how many equal slices the width is at least, one or more of which go to each rank."""
        if self.operation not in SLICED:
            return 1
        return self.ranks * (self.ranks + 1) // 2 if self.parts == "uneven" else self.ranks

    def sent(self, rank: int) -> tuple[int, ...]:
        """The widths of the parts that a rank of the group sends to each."""
        wide, uneven = self.width // self.slices, self.parts == "uneven"
        return tuple(wide * ((other - rank) % self.ranks * uneven + 1) for other in range(self.ranks))

    def received(self, rank: int) -> tuple[int, ...]:
        """The widths of the parts that a rank of the group gets from each."""
        return tuple(self.sent(other)[rank] for other in range(self.ranks))

    @property
    def outputs(self) -> int:
        """The width of the result."""
        part = self.width // self.ranks
        every = self.width * self.ranks
        sizes = {"all_gather": every, "gather": every, "reduce_scatter": part, "scatter": part}
        return sizes.get(self.operation, self.width)

    def gives(self, width: int) -> int:
        """The width of the result."""
        return self.outputs

    def sizes(self) -> Mapping[str, int]:
        """The width alone: the axis is a number, not a size."""
        return {"width": self.width}

    def contradiction(self) -> str:
        """The axis is one of the mesh's, slices and halves are equally wide, and the factor is moderate."""
        if not self.mesh or min(self.mesh) < 1 or not 0 <= self.axis < len(self.mesh):
            return f"axis {self.axis} of a mesh {self.mesh}; allowed: an axis of a mesh with sizes from 1"
        if self.width % self.slices:
            needed = f"over {self.ranks} ranks needs a multiple of {self.slices}"
            return f"width {self.width}; {self.operation} {needed}"
        if self.parts == "uneven" and (self.operation != "all_to_all" or self.learned is msgspec.UNSET):
            return f"uneven parts of {self.operation}; only an `all_to_all` with `learned` has them"
        if reason := self._not_learned():
            return reason
        if not 0.0 < self.factor <= MOST_FACTOR:
            return f"factor {self.factor}; allowed: above 0, to {MOST_FACTOR}"
        halves = self.form == "list" and self.parts is msgspec.UNSET
        return f"width {self.width}; a list is of two halves" if halves and self.width % 2 else ""

    def _not_learned(self) -> str:
        """No gradient goes through it as it is told to, or through a `gather` or a mean, which need that."""
        if self.learned is msgspec.UNSET:
            needs = self.operation == "gather" or self.reduction == "avg"
            return f"{self.operation} by {self.reduction}; gather and avg need `learned`" if needs else ""
        allowed = LEARNED[self.learned]
        if self.operation in allowed:
            return ""
        return f"{self.operation} learned by {self.learned}; allowed: {', '.join(allowed)}"

    def misplaced(self, path: str, sequence: int, first: Layer) -> str:
        """It stands on the model's input, (rows, width)."""
        behind = path.isdigit() if self.learned is not msgspec.UNSET else path == "0"
        if not behind or sequence:
            return "is a collective; only layer 0 may be one, of a model without a sequence"
        return super().misplaced(path, sequence, first)

    def disagreement(self, layout: Layout, rows: int) -> str:
        """Its mesh is the layout's, every axis of which cuts the rows evenly."""
        shape = layout.mesh.shape
        if self.mesh != shape or set(layout.batch) != {Shard(0)} or rows % layout.mesh.world_size:
            needed = f"the mesh {shape} must be that, and cut {rows} rows evenly"
            return f"is a collective over the mesh {self.mesh}; {needed}"
        return ""

    def rounds(self) -> str:
        """Moving, choosing and adding is exact; multiplying by a power of two is too."""
        if self.reduction == "avg":
            return "a mean over ranks rounds"
        return "" if is_dyadic(self.factor) else "the factor of a collective is no power of two"

    def output_range(self, values: Range, weights: Mapping[str, Range]) -> Range:
        """A sum has as many terms as the group has ranks; other operations move or choose.

        The factor shifts the range.
        """
        adds = self.operation in REDUCING and self.reduction == "sum"
        return (values.summed(self.ranks) if adds else values).scaled(self.factor)

    def input_gradient_range(self, gradient: Range, weights: Mapping[str, Range]) -> Range:
        """At most the gradients of all ranks of a group, added; none goes through one that is not learned."""
        del weights
        if self.learned is msgspec.UNSET:
            return gradient
        return gradient.summed(self.ranks).scaled(self.factor)

    @property
    def complexity(self) -> int:
        """More than a local layer."""
        return 2

    def removable(self) -> tuple[Removable, ...]:
        """The reduction if it is not the sum, the factor, and the list."""
        parts: tuple[tuple[bool, Removable], ...] = (
            (self.reduction != "sum", (f"reduces by {self.reduction}", {"reduction": "sum"})),
            (self.factor != 1.0, (f"multiplies by {self.factor:g}", {"factor": 1.0})),
            (self.form != "single", ("is called with a list of tensors", {"form": "single"})),
            (self.memory is not msgspec.UNSET, ("of tensors with strides", {"memory": msgspec.UNSET})),
            (
                self.parts == "uneven" and not self.width % self.ranks,
                ("of uneven parts", {"parts": msgspec.UNSET}),
            ),
        )
        return tuple(part for present, part in parts if present)

    def fitted(self, width: int, first: Layer | None) -> "Collective":
        """The same layer where it stands first: no other layer decides its width then."""
        return self if self.learned is msgspec.UNSET else msgspec.structs.replace(self, width=width)

    def on_axes(self, kept: tuple[int, ...], shape: tuple[int, ...]) -> "Collective":
        """Its axis if that is kept, else the first; each rank's slice of the width stays as wide."""
        axis = kept.index(self.axis) if self.axis in kept else 0
        moved = msgspec.structs.replace(self, mesh=shape, axis=axis)
        return msgspec.structs.replace(moved, width=self.width // self.slices * moved.slices)

    def features(self) -> Iterator[str]:
        """The operation with its form, reduction and memory, the factor, and the number of groups."""
        yield f"{self.operation} {self.form}"
        yield f"{self.operation} {self.reduction}"
        if self.memory is not msgspec.UNSET:
            yield f"{self.operation} {self.memory}"
        if self.learned is not msgspec.UNSET:
            yield f"{self.operation} learned by {self.learned}"
        if self.parts is not msgspec.UNSET:
            yield f"{self.operation} {self.parts}"
        yield f"factor {self.factor:g}"
        yield "groups" if self.ranks < math.prod(self.mesh) else "all ranks"

    def spelled(self, path: str, *, moves: bool) -> str:
        """The script's own class, which has the case's numbers in it."""
        return "Collective()"
