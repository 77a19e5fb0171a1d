"""Finding plug-ins: a plug-in is a module in its folder, and there is no list to extend.

The folders are `difftest.judge.checks`, `generators.paths`, `workers.backends` and `reports.formats`; what a module in one of
them must offer is the `Protocol` in the folder's `__init__`. Names are read from the folder without importing anything.

A backend may be named with an environment: `xla_spmd@2.8` is `xla_spmd`, run where `workers.cluster.environments` finds one of that name.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

from difftest.errors import UsageError

IN = "@"
"""Between a backend and its environment."""

ENVIRONMENT = "[A-Za-z0-9_.]{1,30}"
"""What an environment may be called, as a regular expression; a finding's folder is called by it."""


@cache
def names(package: str) -> tuple[str, ...]:
    """The plug-ins in `package`, sorted; folders, and modules whose name starts with an underscore, are not plug-ins."""
    modules = pkgutil.iter_modules([str(_folder(package))])
    return tuple(sorted(m.name for m in modules if not m.ispkg and not m.name.startswith("_")))


def file(package: str, name: str) -> Path:
    """The file of the plug-in called `name`; `UsageError` when there is none."""
    require(package, [name])
    return _folder(package) / f"{name}.py"


def load(package: str, name: str) -> ModuleType:
    """The plug-in called `name`, in whatever environment; `UsageError` when there is none."""
    require(package, [plain(name)])
    return importlib.import_module(f"{package}.{plain(name)}")


def plain(name: str) -> str:
    """A backend's name without its environment's."""
    return name.partition(IN)[0]


def require(package: str, wanted: Iterable[str], allowed: Iterable[str] = ()) -> tuple[str, ...]:
    """The names in `wanted`, or `UsageError` naming the first that is not `allowed` (by default: all that `package` holds)."""
    allowed = tuple(allowed) or names(package)
    chosen = tuple(wanted)
    for name in chosen:
        if name not in allowed:
            kind = package.rsplit(".", 1)[-1].removesuffix("s")
            msg = f"unknown {kind} {name!r}; allowed: {', '.join(allowed)}"
            raise UsageError(msg)
    return chosen


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(name=package)
    return Path(spec.submodule_search_locations[0])
