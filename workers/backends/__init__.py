"""The backends: each file says how to get what a layout says. `workers.session.Backend` is what a file here must offer.

A backend is listed, and asked what it supports, on machines without its framework: it imports the framework inside the
functions that join it, never at the top of its file.
"""

from types import ModuleType

from difftest import plugins
from difftest.examine import ORACLE


def candidates(wanted: tuple[str, ...] = ()) -> dict[str, ModuleType]:
    """The backends in `wanted`, or the usual ones, by name; the oracle is not one of them. `UsageError` for an unknown name.

    A backend whose file says `ON_REQUEST = True` needs more than the usual installation, and runs only where it is named.
    """
    allowed = tuple(name for name in plugins.names(__name__) if name != ORACLE)
    chosen = plugins.require(__name__, wanted, allowed) if wanted else allowed
    loaded = {name: plugins.load(__name__, name) for name in chosen}
    return {name: backend for name, backend in loaded.items() if wanted or not getattr(backend, "ON_REQUEST", False)}
