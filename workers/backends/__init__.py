"""The backends, one file each: how to get what a layout says.

To add a backend, add a file here that satisfies `Backend`; there is no list to extend. A backend is listed,
and asked what it supports, on machines without its framework: it imports the framework inside the functions
that join it, never at the top of its file.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from workers.sides import Profile

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from workers.training.session import Session


class Backend(Protocol):
    """What a file in this folder declares. Only `session` may import the framework, inside the function."""

    TITLE: str
    """What users call it, as in the title of an issue: `DDP over "xla"`."""

    SIDE: str
    """`torch` or `xla`, the side that a divergence is blamed on; `oracle` for the oracle."""

    FRAMEWORK: str
    """The package that drives the side's devices, such as `torch_xla` or `torchax`; empty for the oracle.

    Another framework of the side that is right narrows the blame.
    """

    PROFILE: Profile
    """What commands need to know of the backend, see `workers.sides`."""

    PRELOAD: tuple[str, ...]
    """Modules that a zygote imports once, before any run; begins with `process_groups.PRELOAD` if it can."""

    def unsupported(self, case: Case) -> str | None:
        """Why this backend cannot express `case`, or None; the worker's answer counts if versions matter."""

    def processes(self, case: Case) -> int:
        """How many processes a run of `case` takes."""

    def environment(self, case: Case) -> dict[str, str]:
        """Environment variables that the child processes start with."""

    def session(self, case: Case, rank: int, rendezvous: str) -> "AbstractContextManager[Session]":
        """Joins as process `rank` of `processes(case)` when it is entered.

        `rendezvous` is a file URL that all of them share.
        """


def load(name: str) -> Backend:
    """The backend called `name`, the oracle too, in any environment; `UsageError` when there is none."""
    backend: Backend = plugins.load(__name__, name)
    return backend


def profile(name: str) -> Profile:
    """The profile of the backend called `name`; an empty one for an unknown backend, such as a bundle's."""
    return load(name).PROFILE if plugins.plain(name) in plugins.names(__name__) else Profile()


def titles() -> dict[str, str]:
    """What users call each backend, the oracle too, by name."""
    return {name: load(name).TITLE for name in plugins.names(__name__)}


def candidates(wanted: tuple[str, ...] = ()) -> dict[str, Backend]:
    """The backends in `wanted`, or the usual ones, by name; never the oracle. `UsageError` for unknown names.

    A name may end in an environment, as `xla_spmd@2.8` (`workers.cluster.environments`). A backend whose
    profile names `extras` needs others than the usual ones; such a backend, and one that is `only_named`,
    is among the candidates only where it is named.
    """
    allowed = tuple(name for name in plugins.names(__name__) if name != ORACLE)
    plugins.require(__name__, map(_without_environment, wanted), allowed)
    loaded = {name: load(name) for name in wanted or allowed}
    special = {name for name, own in loaded.items() if own.PROFILE.extras or own.PROFILE.only_named}
    return {name: backend for name, backend in loaded.items() if wanted or name not in special}


def all_backends() -> dict[str, Backend]:
    """Every backend by name but the oracle, those too that run only where they are named."""
    return {name: load(name) for name in plugins.names(__name__) if name != ORACLE}


def references() -> dict[str, Backend]:
    """The backends that run the twins of cases, by name."""
    return {name: backend for name, backend in all_backends().items() if backend.PROFILE.runs_twins}


def following(names: Iterable[str]) -> dict[str, str]:
    """For each backend that can run behind another in the same processes that other, in its environment."""
    leaders = {name: profile(name).follows for name in names}
    return {name: name.replace(plugins.plain(name), leader, 1) for name, leader in leaders.items() if leader}


def mechanisms(names: Iterable[str]) -> dict[str, Mapping[str, Mapping[str, str]]]:
    """Of these backends those with `PROFILE.mechanisms`, and the mechanisms."""
    profiles = {name: profile(name) for name in names}
    return {name: one.mechanisms for name, one in profiles.items() if one.mechanisms}


def _without_environment(name: str) -> str:
    """A backend's name without that of its environment; `UsageError` for a bad name of an environment."""
    backend, at, environment = name.partition(plugins.IN)
    if at and not re.fullmatch(plugins.ENVIRONMENT, environment):
        allowed = "1 to 30 letters, digits, '.' and '_'"
        msg = f"backend {name!r} names the environment {environment!r}; allowed: {allowed}"
        raise UsageError(msg)
    return backend
