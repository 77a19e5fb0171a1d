"""The parallelism paths, one file each: what is sharded over which mesh axis, never how a backend gets there.

To add a path, add a file here that satisfies `Path`; there is no list to extend. Its name, without `.py`, is
what `--paths` takes. A path that works with every model returns `generators.models.models(purpose=purpose)`;
one that can only shard certain layers builds models that have them.
"""

import functools
from collections.abc import Iterable
from typing import Protocol

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from difftest.cases.case import Case
from difftest.cases.layout import Layout, Mesh
from difftest.cases.model import Model
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from generators.models import Purpose


class Path(Protocol):
    """What a file in this folder declares."""

    DEFAULT: bool
    """Whether it is among the paths of a campaign that names none.

    A path that joins them changes which case a number of a seed is.
    """

    IN_BLOCKS: bool
    """Whether successive cases share processes, and so come in blocks beside the cases of other paths."""

    HAS_FEATURES: bool
    """Whether its cases have features of training (`difftest.cases.features`)."""

    TAKES_ANY_MODEL: bool
    """Whether it fits any model, a module of the user's too, which takes a default path unasked."""

    def completed(self, *, case: Case) -> SearchStrategy[Case]:
        """The drawn case with what only this path draws; `as_drawn` is the function of a path with nothing.

        The numbers of its cases do not move where only a path of its own draws something new.
        """

    def scheduled(self, *, seed: int, index: int, max_world_size: int) -> Case | Mesh | None:
        """What the path's case `index` of `seed` is, or the mesh on which it is drawn.

        None where nothing is fixed: `drawn_alone` is the function of a path without a schedule.
        """

    def purposes(self, *, mesh: Mesh) -> SearchStrategy[Purpose]:
        """What a case on `mesh` may be for; `generators.training.purposes` if the path can serve them all."""

    def meshes(self, *, max_world_size: int) -> SearchStrategy[Mesh]:
        """Meshes of 2 to `max_world_size` ranks with the path's axes."""

    def models(self, *, mesh: Mesh, purpose: Purpose) -> SearchStrategy[Model]:
        """Models that the path can lay out on `mesh`, from `generators.models` if exact or learnable."""

    def layouts(self, *, model: Model, mesh: Mesh) -> SearchStrategy[Layout]:
        """Layouts of `model` over all of `mesh`; the batch is sharded along dim 0 or not at all."""


def drawn_alone(*, seed: int, index: int, max_world_size: int) -> None:
    """No schedule: every case is drawn."""


def as_drawn(*, case: Case) -> SearchStrategy[Case]:
    """The case as it is, for which nothing is drawn."""
    return st.just(case)


def chosen(paths: Iterable[str] | None) -> tuple[str, ...]:
    """The paths called so, or the default ones if None; sorted. `UsageError` for an unknown one, and none."""
    names = _default() if paths is None else plugins.require(__name__, paths)
    if not names:
        msg = f"no paths are given; allowed: {', '.join(plugins.names(__name__))}"
        raise UsageError(msg)
    return tuple(sorted(set(names)))


@functools.cache
def _default() -> tuple[str, ...]:
    return tuple(name for name in plugins.names(__name__) if load(name).DEFAULT)


def load(name: str) -> Path:
    """The path called `name`; `UsageError` when there is none."""
    path: Path = plugins.load(__name__, name)
    return path
