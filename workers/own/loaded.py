"""The user's source in this process.

Nothing of the working directory is imported but what a case names, and that only if the digests agree. Its
folders come last on Python's path, so that a file `numpy.py` in them is not numpy.
"""

import ast
import importlib
import importlib.util
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

import msgspec
import numpy as np
import torch

from difftest.cases.layers.own import Own
from difftest.ground import sources
from difftest.ground.errors import UsageError
from workers.own import masks, recipes

BATCH = "batch"
"""The function without which no file is imported."""

_DRAWING = threading.RLock()
"""Held while the user's code draws from the process's generators: replicas are threads of one process."""


def functions(layer: Own) -> ModuleType:
    """The user's module, imported; `UsageError` unless its files are those of the case.

    Of a model by name, the functions that its recipe stands for.
    """
    if layer.recipe:
        masks.install()
        return recipes.functions(msgspec.json.encode(layer.recipe))
    sources.require_unchanged(layer.files)
    file, _ = found(layer.place)
    if str(file.relative_to(Path.cwd().resolve())) not in layer.files:
        msg = f"the case has no digest of {file}, which it needs"
        raise UsageError(msg)
    return imported(layer.place)


@cache
def imported(place: str) -> ModuleType:
    """The module or the file called `place`, imported once; an exception of its own code is passed on.

    `UsageError` where it is no description of a model.
    """
    with _DRAWING:
        file, root = found(place)
        _require_batch(file, place)
        masks.install()
        for folder in map(str, (root, file.parent if place.endswith(".py") else root)):
            if folder not in sys.path:
                sys.path.append(folder)
        if not place.endswith(".py"):
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None  # noqa: S101  the suffix is .py
        assert spec.loader is not None  # noqa: S101
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module


def found(place: str) -> tuple[Path, Path]:
    """The file of a module or of a path, and the folder in which its packages are.

    `UsageError` where the working directory has none.
    """
    here = Path.cwd().resolve()
    name = place.removesuffix(".py") if place.endswith(".py") else place.replace(".", "/")
    for root in (here / folder for folder in sources.ROOTS):
        for file in (root / f"{name}.py", root / name / "__init__.py"):
            if file.is_file() and file.resolve().is_relative_to(here):
                return file.resolve(), root
    msg = f"the working directory {str(here)!r} has no {place!r}; run the command in the folder that has it"
    raise UsageError(msg)


def _require_batch(file: Path, place: str) -> None:
    """`UsageError` unless the file says that it describes a model, before any of its code runs."""
    try:
        tree = ast.parse(file.read_text())
    except (OSError, SyntaxError, UnicodeError) as error:
        msg = f"{place} cannot be read: {error}"
        raise UsageError(msg) from error
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    defined |= {alias.asname or alias.name for node in imports for alias in node.names}
    if BATCH not in defined:
        msg = (
            f"{place} defines no function {BATCH}(generator, rows), which gives inputs and targets; "
            "docs/own-model.md has an example"
        )
        raise UsageError(msg)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A context in which torch, numpy and Python draw from `seed` on, for one thread at a time."""
    with _DRAWING:
        torch.default_generator.manual_seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002  what the user's code may draw from
        random.seed(seed)
        yield
