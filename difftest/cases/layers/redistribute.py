"""A change of placements in the middle of a model."""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from difftest.cases.layer import Layer, Removable
from difftest.cases.layout import Layout

Way: TypeAlias = Literal["redistribute", "full_tensor", "to_local"]

SPELLED: Mapping[Way, str] = {
    "redistribute": "Redistribute",
    "full_tensor": "ByFullTensor",
    "to_local": "ByToLocal",
}
"""The classes of a script that move activations, by the function of DTensor that they use."""


class Redistribute(Layer, frozen=True, kw_only=True, tag="redistribute"):
    """The identity, by way of other placements.

    Where tensors have placements, the activations are moved to `dims` and back.

    `dims` has the tensor dim that each mesh axis shards meanwhile, or None for a replica. `by` names the
    function of DTensor: `redistribute`, `full_tensor` (then distributed again), or `to_local` and
    `from_local`. Backends with plain activations have nothing to move.
    """

    width: int
    dims: tuple[int | None, ...]
    by: Way = "redistribute"

    def disagreement(self, layout: Layout, rows: int) -> str:
        """It has a dim for every mesh axis."""
        axes = len(layout.mesh.axes)
        return (
            ""
            if len(self.dims) == axes
            else f"redistributes over {len(self.dims)} mesh axes; the mesh has {axes}"
        )

    def rounds(self) -> str:
        """Nothing is computed."""
        return ""

    def removable(self) -> tuple[Removable, ...]:
        """The function of DTensor, if it is not `redistribute`."""
        return ((f"goes by {self.by}", {"by": "redistribute"}),) if self.by != "redistribute" else ()

    def on_axes(self, kept: tuple[int, ...], shape: tuple[int, ...]) -> "Redistribute":
        """With the dims of those axes."""
        return msgspec.structs.replace(self, dims=tuple(self.dims[axis] for axis in kept))

    def features(self) -> Iterator[str]:
        """The function of DTensor, and the placements."""
        yield f"moved by {self.by}"
        yield f"moved to {' '.join(map(str, self.dims))}"

    def spelled(self, path: str, *, moves: bool) -> str:
        """The script's own class, where activations have placements."""
        placements = ("Replicate()" if dim is None else f"Shard({dim})" for dim in self.dims)
        return f"{SPELLED[self.by]}([{', '.join(placements)}])" if moves else "nn.Identity()"
