"""What a run reached: the operators that its framework's own dispatcher was given, forward and backward.

A worker reports it, and no check judges it. `difftest.campaign.coverage` adds where the operands lay.
"""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec

Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=200)]
"""An operator in a few words, such as `add`."""

Names: TypeAlias = tuple[Name, ...]
"""Sorted, each once."""

ALL_LAYERS = ""
"""The key of names that are not told apart by layer."""


class Reached(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The operators that a run reached; every field is empty where a backend does not count them.

    * `forward`, `backward`: torch's names of the dispatched operators without overload, as `add` of
      `aten::add.Tensor`; other libraries' have theirs before them, as `c10d::allreduce_`. The keys are the
      layers of a program that dispatched them, or `ALL_LAYERS`. Backward is all that autograd's engine ran.
    * `rules` (DTensor): operators with the placements of their operands and results, as `mm S0,R>S0`: a
      letter and the dim for each mesh axis, `S0` is `Shard(0)`, `R` `Replicate()` and `P` `Partial()`.
    * `eager`: torch ran the module operator by operator, as in the oracle's run in the case's dtype, and so
      dispatched the same operators.
    * `lowered` (torch_xla): the kinds of nodes in the graphs that were lowered to HLO, as `aten::permute`.
    """

    forward: dict[Name, Names] = {}
    backward: dict[Name, Names] = {}
    rules: Names = ()
    lowered: Names = ()
    eager: bool = False

    def merged(self, other: "Reached") -> "Reached":
        """What two processes of one run reached together."""
        return Reached(
            forward=_united(self.forward, other.forward),
            backward=_united(self.backward, other.backward),
            rules=tuple(sorted({*self.rules, *other.rules})),
            lowered=tuple(sorted({*self.lowered, *other.lowered})),
            eager=self.eager or other.eager,
        )


def _united(one: Mapping[str, Names], other: Mapping[str, Names]) -> dict[str, Names]:
    layers = sorted({*one, *other})
    return {layer: tuple(sorted({*one.get(layer, ()), *other.get(layer, ())})) for layer in layers}
