"""The functions that a recipe stands for: what a file of the user's would define."""

import importlib
import itertools
import os
import sys
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any, cast

import msgspec
import torch
from torch import Tensor, nn

from difftest.cases.recipe import BUILD, CHANCES, OFFLINE, Feed, Recipe
from difftest.ground.errors import UsageError
from difftest.ground.installed import how_to_install


@cache
def functions(recipe: bytes) -> ModuleType:
    """`build`, `batch` and, where the model returns it, `loss`, for a recipe as JSON."""
    described = msgspec.json.decode(recipe, type=Recipe)
    module = ModuleType(described.call)
    entries: dict[str, Any] = {
        BUILD: lambda _seed: built(described),
        "batch": lambda generator, rows: batch(described, generator, rows),
    }
    if described.loss == "own":
        entries["loss"] = lambda outputs, _targets: own_loss(outputs)
    vars(module).update(entries)
    return module


def imported(package: str) -> Any:  # noqa: ANN401  a module
    """The package; `UsageError` where it is not installed."""
    os.environ.update(OFFLINE)
    try:
        return importlib.import_module(package)
    except ImportError as error:
        msg = f"{package} cannot be imported ({error}); `{how_to_install(package)}` installs it"
        raise UsageError(msg) from error


def built(recipe: Recipe) -> nn.Module:
    """The module, with random weights."""
    module = _called(recipe)
    for path, length in recipe.cut.items():
        del cast("nn.Sequential", module.get_submodule(path))[length:]
    if recipe.head:
        parent, _, name = recipe.head.rpartition(".")
        inside = module.get_submodule(recipe.head).modules()
        width = next(one.in_features for one in inside if isinstance(one, nn.Linear))
        setattr(module.get_submodule(parent), name, nn.Linear(width, recipe.targets.high or 1))
    if recipe.calm:
        for inner, name in itertools.product(module.modules(), CHANCES):
            if isinstance(getattr(inner, name, None), float):
                setattr(inner, name, 0.0)
    return module


def _called(recipe: Recipe) -> nn.Module:
    package = imported(recipe.package)
    arguments = msgspec.to_builtins(recipe.arguments)
    if recipe.package == "timm":
        return _required(package.create_model(recipe.call, pretrained=False, **arguments), recipe)
    if recipe.package == "torchvision":
        return _required(package.models.get_model(recipe.call, weights=None, **arguments), recipe)
    call = getattr(package, recipe.call, None)
    if not (isinstance(call, type) and issubclass(call, nn.Module)):
        msg = f"{recipe.package} {sys.modules[recipe.package].__version__} has no model {recipe.call}"
        raise UsageError(msg)
    if recipe.config is None:
        return call(**arguments)
    config: Any = getattr(package, recipe.config)
    return call(config(**arguments))


def _required(module: object, recipe: Recipe) -> nn.Module:
    if not isinstance(module, nn.Module):
        msg = f"{recipe.call} of {recipe.package} is {type(module).__name__}; needed: a torch.nn.Module"
        raise UsageError(msg)
    return module


def batch(recipe: Recipe, generator: torch.Generator, rows: int) -> tuple[Any, Tensor]:
    """Inputs by name or in order, and targets, of so many rows."""
    fed = {feed.name: _drawn(feed, generator, rows) for feed in recipe.inputs}
    targets = fed.get(recipe.targets.name)
    if targets is None:
        targets = _drawn(recipe.targets, generator, rows)
    return (tuple(fed.values()) if all(name.isdigit() for name in fed) else fed), targets


def _drawn(feed: Feed, generator: torch.Generator, rows: int) -> Tensor:
    if feed.high is None:
        return torch.randn(rows, *feed.row, generator=generator)
    return torch.randint(0, feed.high, (rows, *feed.row), generator=generator)


def own_loss(outputs: Any) -> Tensor:  # noqa: ANN401  what the module returns
    """The loss that a module returns: by name, or as the first of several."""
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    if not isinstance(loss, Tensor):
        msg = f"the module returns {type(outputs).__name__} without a loss"
        raise UsageError(msg)
    return loss
