"""Lazy tensors: their values are read once they are computed, and the graphs compiled until then are counted.

Reading must not cut the graph that a user's program would compile: what is read before it has been computed
is only noted, and fetched when the step is synchronised.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from difftest.cases.layout import Placements
from difftest.judge.events import Events
from difftest.judge.outcome import Array, Sharded
from workers.training.pieces import sharded

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True, kw_only=True)
class Reader:
    """Reads the pieces of tensors, those of lazy tensors at the next `sync`.

    `fetch(tensor, placements)` gives the pieces of a computed tensor.

    `graphs` counts the graphs that this process has compiled until the end of each `sync`.
    """

    fetch: Callable[["Tensor", Placements], Mapping[int, Array]]
    noted: list[tuple["Tensor", Placements, dict[int, Array]]] = field(default_factory=list)
    graphs: list[int] = field(default_factory=list)

    def read(self, tensor: "Tensor", placements: Placements, shape: tuple[int, ...] | None = None) -> Sharded:
        """The pieces by rank, of a tensor whose global shape is `shape`, by default its own."""
        import torch_xla

        pieces: dict[int, Array] = {}
        is_lazy = torch_xla._XLAC._check_tensor_need_materialization  # noqa: SLF001  no public equivalent
        if any(is_lazy([tensor])):
            self.noted.append((tensor.clone(), placements, pieces))
        else:
            pieces.update(self.fetch(tensor, placements))
        return sharded(tensor, placements, pieces, shape)

    def sync(self) -> None:
        """Compiles and runs what has been traced, waits for it, and fetches what was noted."""
        import torch_xla
        from torch_xla.debug import metrics

        torch_xla.sync(wait=True)
        self.graphs.append(metrics.counter_value("UncachedCompile") or 0)
        for tensor, placements, pieces in self.noted:
            pieces.update(self.fetch(tensor, placements))
        self.noted.clear()

    def events(self, syncs_a_step: Callable[[int], int]) -> Events:
        """Graphs compiled until the end of each step, operators that ran on the CPU, JAX's own backends.

        `syncs_a_step` gives the number of syncs of one step from that of all.
        """
        from torch_xla.debug import metrics

        if self.noted:
            self.sync()
        syncs = syncs_a_step(len(self.graphs))
        jax = sys.modules.get("jax._src.xla_bridge")
        return Events(
            graphs=tuple(self.graphs[syncs - 1 :: syncs]),
            fallbacks=tuple(sorted(metrics.executed_fallback_ops())),
            jax_backends=tuple(sorted(getattr(jax, "_backends", {}))),
        )


def recompute(block: "Callable[..., Tensor]", *inputs: Any) -> "Tensor":  # noqa: ANN401
    """`block(*inputs)`, computed again behind an optimization barrier.

    Without one XLA would recognise the same computation and keep its results.
    """
    from torch_xla.utils.checkpoint import checkpoint

    recomputed: Tensor = checkpoint(block, *inputs)
    return recomputed
