"""The backends: each file says how to get what a layout says. `workers.training.session.Backend` is what a file here must offer.

A backend is listed, and asked what it supports, on machines without its framework: it imports the framework inside the
functions that join it, never at the top of its file.
"""

import re
from types import ModuleType

from difftest import plugins
from difftest.campaign.campaign import ORACLE
from difftest.errors import UsageError


def candidates(wanted: tuple[str, ...] = ()) -> dict[str, ModuleType]:
    """The backends in `wanted`, or the usual ones, by name; the oracle is not one of them. `UsageError` for an unknown name.

    A name may end in an environment, as `xla_spmd@2.8` (`workers.cluster.environments`). A backend whose file names extras of this package in
    `ON_REQUEST` needs others than the usual ones, and runs only where it is named.
    """  # noqa: E501
    allowed = tuple(name for name in plugins.names(__name__) if name != ORACLE)
    plugins.require(__name__, map(_plain, wanted), allowed)
    chosen = wanted or allowed
    loaded = {name: plugins.load(__name__, name) for name in chosen}
    return {
        name: backend for name, backend in loaded.items() if wanted or not getattr(backend, "ON_REQUEST", "")
    }


def _plain(name: str) -> str:
    """A backend's name without its environment's; `UsageError` for one that cannot be."""
    backend, at, environment = name.partition(plugins.IN)
    if at and not re.fullmatch(plugins.ENVIRONMENT, environment):
        msg = f"backend {name!r} names the environment {environment!r}; allowed: 1 to 30 letters, digits, '.' and '_'"
        raise UsageError(msg)
    return backend
