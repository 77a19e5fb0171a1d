"""Which candidate to run: generating costs a thousandth of running, so draw several and run the best.

The one idea: a case is worth what it probably reaches that no earlier case did, as measured in other cases
(`generators.signatures`). Of cases that are worth the same, the best has most new pairs of features, because
most bugs need two features at once. The walk starts anew every `BLOCK` cases, so the choice at an index
depends on its block alone, and not on what was generated before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TypeAlias

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layout import uneven_axes
from difftest.cases.resets import option_resets
from generators.signatures import Signature, expected

BLOCK = 100
POOL = 8
SMALL_WORLD = 4

Cost: TypeAlias = tuple[object, ...]
"""Learnable, exact, many ranks, dtype and early start, or only the first of them."""


@dataclass(slots=True)
class Walk:
    """The cases chosen so far in one block, the pairs of features that they cover, and what they reach."""

    chosen: list[Case] = field(default_factory=list)
    covered: set[tuple[str, str]] = field(default_factory=set)
    reached: set[Signature] = field(default_factory=set)

    def choose(self, pool: Sequence[Case]) -> None:
        """Adds the case of `pool` that is worth most; of equals the first.

        Only cases with the dtype, purpose and size of the first compete, so that cases which are rare because
        they cost more, or show less, stay rare.
        """
        rivals = [case for case in pool if cost_of(case) == cost_of(pool[0])]
        best = max(rivals, key=self._worth)
        self.chosen.append(best)
        self.covered |= pairs(best)
        self.reached |= expected(features(best))

    def _worth(self, case: Case) -> tuple[int, int]:
        """How many things the case probably reaches that no earlier one did, and how many pairs it adds."""
        new = expected(features(case)) - self.reached
        return sum(signature.things for signature in new), len(pairs(case) - self.covered)


def pairs(case: Case) -> frozenset[tuple[str, str]]:
    """Every pair of features of `case`."""
    return frozenset(combinations(sorted(features(case)), 2))


def features(case: Case) -> frozenset[str]:
    """The notable features of `case`, as texts."""
    return frozenset(
        (*_layout_features(case), *_model_features(case), *_training_features(case), *_option_features(case))
    )


def cost_of(case: Case) -> Cost:
    """What a case costs and shows: only cases with equal costs compete."""
    early = case.start.acts.index("spmd") > min(
        map(case.start.acts.index, ("device", "seed"))
    )  # such a run may show nothing but its start
    first = first_cost(
        learnable=case.data.learnable, exact=case.data.regime == "exact", ranks=case.world_size
    )
    return *first, case.dtype, early


def first_cost(*, learnable: bool, exact: bool, ranks: int) -> Cost:
    """The part of a case's cost that is drawn first."""
    return learnable, exact, ranks > SMALL_WORLD


def _layout_features(case: Case) -> Iterator[str]:
    layout, shapes = case.layout, case.model.tensors()
    yield f"path {case.path}"
    yield f"{len(layout.mesh.axes)} axes"
    yield f"{case.world_size} ranks"
    for name, size in layout.mesh.axes:
        yield f"{name}={size}"
    for placements in set(layout.parameters.values()):
        yield f"placed {' '.join(map(str, placements))}"
    if any(uneven_axes(shapes[name], at, layout.mesh) for name, at in layout.parameters.items()):
        yield "uneven parameters"
    if case.data.batch % layout.data_ranks:
        yield "uneven batch"


def _model_features(case: Case) -> Iterator[str]:
    for _, layer in walk(case.model.layers):
        yield type(layer).__name__
        yield from layer.features()


def _training_features(case: Case) -> Iterator[str]:
    training = case.training
    yield case.dtype
    yield f"regime {case.data.regime}"
    yield f"optimizer {training.optimizer}"
    yield f"loss {training.loss}"
    yield f"{'several parts' if training.accumulation > 1 else 'one part'}"
    yield f"{'clipped' if training.clip_norm else 'unclipped'}"
    yield f"{'one step' if training.steps == 1 else 'several steps'}"
    if case.data.ignored:
        yield "ignored targets"
    if case.data.learnable:
        yield "learnable"
    if training.checkpointing:
        yield "checkpointing"


def _option_features(case: Case) -> Iterator[str]:
    """The option that is not at its default, or that several are not; at most one feature.

    More would make options more frequent than what they are combined with. Kernels and usual forms are drawn
    often enough without it.
    """
    changed = [name for name, _ in option_resets(case) if not name.startswith(("sdpa", "spelling"))]
    if changed:
        yield changed[0] if len(changed) == 1 else "several options"
