"""Finding plug-ins: a plug-in is a module in its folder, and there is no list to extend.

A folder of plug-ins is a package whose `__init__` declares the `Protocol` that its files satisfy, and has a
loader of that type, such as `difftest.judge.checks.load`. Only these loaders call `load` here. Names are read
from the folder without importing anything.

A backend may be named with an environment: `xla_spmd@2.8` is `xla_spmd`, run where
`workers.cluster.environments` finds one of that name.
"""

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import ModuleType

from difftest.ground.errors import UsageError

IN = "@"
"""Separates a backend's name from that of its environment."""

ENVIRONMENT = "[A-Za-z0-9_.]{1,30}"
"""A regular expression for the name of an environment; findings' folders are named by it."""


@cache
def names(package: str) -> tuple[str, ...]:
    """The plug-ins in `package`, sorted; folders and modules that start with an underscore are none."""
    modules = pkgutil.iter_modules([str(_folder(package))])
    return tuple(sorted(m.name for m in modules if not m.ispkg and not m.name.startswith("_")))


def file(package: str, name: str) -> Path:
    """The file of the plug-in called `name` in `package`; `UsageError` when there is none."""
    require(package, [name])
    return _folder(package) / f"{name}.py"


def load(package: str, name: str) -> ModuleType:
    """The plug-in called `name` in `package`, for its own typed loader; `UsageError` when there is none.

    A backend's name may include an environment, which makes no difference here.
    """
    require(package, [plain(name)])
    return importlib.import_module(f"{package}.{plain(name)}")


def plain(name: str) -> str:
    """A backend's name without that of its environment."""
    return name.partition(IN)[0]


def within(name: str, environment: str) -> str:
    """The name of a backend in an environment; empty is this Python."""
    return f"{name}{IN}{environment}" if environment else name


def require(package: str, wanted: Iterable[str], allowed: Iterable[str] = ()) -> tuple[str, ...]:
    """The names in `wanted`; `UsageError` for the first that is not `allowed` (default: all in `package`)."""
    allowed = tuple(allowed) or names(package)
    chosen = tuple(wanted)
    for name in chosen:
        if name not in allowed:
            kind = package.rsplit(".", 1)[-1].removesuffix("s")
            near = f"did you mean {nearest!r}? Allowed" if (nearest := like(name, allowed)) else "allowed"
            msg = f"unknown {kind} {name!r}; {near}: {', '.join(allowed)}"
            raise UsageError(msg)
    return chosen


def like(name: str, allowed: Iterable[str]) -> str:
    """The allowed name that a user may have meant by a mistyped one; empty where none is near."""
    return next(iter(get_close_matches(name, tuple(allowed), 1)), "")


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(name=package)
    return Path(spec.submodule_search_locations[0])
