"""Commands whose workers are this process, with the zygotes of its tests: no Ray is started, nor joined.

A command that starts Ray takes 9 core seconds before its first run, 12 with the zygotes of both sides. That
commands work on Ray is shown by the tests of the service, of jobs, and of the cluster.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from workers.cluster import actors, connection, dispatch, nodes, start
from workers.deadlines import DEADLINE_SECONDS

RUNNER = object.__new__(actors.Runner.__ray_metadata__.modified_class)  # type: ignore[attr-defined]  # Ray's
"""What an actor is, as a plain object."""


class OwnPool(dispatch.Pool):
    """Calls in this process what a pool calls on actors."""

    def __init__(self, workers: int, *, deadline: float = DEADLINE_SECONDS, **_of_ray: object) -> None:
        self._deadline, self._places = deadline, ()
        self.capacity = nodes.Capacity(workers, grows=False)

    def _call(self, _backend: str, _doing: str, _seconds: float, method: str, *arguments: Any) -> Any:  # noqa: ANN401
        return getattr(RUNNER, method)(*arguments)


@contextmanager
def _cluster(_address: str | None, workers: int | None) -> Iterator[int]:
    connection.begin(None)
    yield workers or 1


@contextmanager
def without_ray() -> Iterator[None]:
    """Commands that are called in this context have this process as their worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "cluster", _cluster)
        patch.setattr(dispatch, "Pool", OwnPool)
        yield
