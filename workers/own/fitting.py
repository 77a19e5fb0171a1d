"""Which of a source's recipes for a name runs here, small enough to be compared."""

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from difftest.cases.recipe import NAMED, Recipe
from difftest.ground.errors import UsageError
from workers.own import made, named, recipes
from workers.own.trial import called

MOST_PARAMETERS = 20_000_000
"""Numbers that are trained: what one step leaves of them has room (`difftest.cases.described`)."""

ROWS = 2
MOST_SECONDS = 120.0
"""How long recipes are tried; one that fails does so within a second."""

LEAST_NORMALIZED = 8
"""Values of a channel of images that a batch normalization should have.

Of two values it makes -1 and 1, whatever they are. Where a residual adds such numbers they cancel, and the
sign of what is left, by which a ReLU chooses, is rounding.
"""

MORE = 6
"""How many recipes are tried after the first that runs, where that has fewer values."""


def fitted(source: str) -> Recipe:
    """The first recipe of `source`, such as `hf:llama`, that runs; `UsageError` where none does.

    One in which every batch normalization has values to normalize counts before one in which some has not.
    """
    matched = NAMED.fullmatch(source)
    assert matched  # noqa: S101  the caller has such a source
    kinds = named.load(matched["place"])
    reasons, began, first, left = Counter[str](), time.monotonic(), None, MORE
    for recipe in kinds.candidates(matched["name"]):
        if time.monotonic() - began > MOST_SECONDS or not left:
            break
        left -= first is not None
        try:
            fit, normalized = _run(recipe)
        except Exception as error:  # noqa: BLE001  a size that does not fit fails in any way
            line = next(iter(str(error).strip().splitlines()), "")
            reasons[f"{type(error).__name__}: {line}"] += 1
            continue
        if normalized >= LEAST_NORMALIZED:
            return fit
        first = first or fit
    if first:
        return first
    usual = reasons.most_common(1)[0][0] if reasons else "nothing is known of its inputs"
    msg = f"no small model of that name runs here: {usual}"
    raise UsageError(msg)


def _run(recipe: Recipe) -> tuple[Recipe, float]:
    """The recipe with the shape of its targets, after a step of it; any exception where it does not run.

    And the least number of values of a channel that a batch normalization of images had.
    """
    if reason := recipe.contradiction():
        raise UsageError(reason)
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in recipes.built(recipe).parameters())
    if count > MOST_PARAMETERS:
        msg = f"{count} parameters; allowed: {MOST_PARAMETERS}"
        raise UsageError(msg)
    torch.manual_seed(0)
    module = recipes.built(recipe)
    inputs, _ = made.split(recipes.batch(recipe, torch.Generator().manual_seed(0), ROWS), ROWS)
    with _normalized(module) as values:
        outputs = called(module, inputs)
    output = made.first_floats(outputs)
    if not output.dim() or len(output) != ROWS:
        msg = f"the first tensor of its outputs for {ROWS} rows is {tuple(output.shape)}"
        raise UsageError(msg)
    recipe = _with_targets(recipe, output)
    total = recipes.own_loss(outputs) if recipe.loss == "own" else output.square().sum()
    total.backward()
    if not torch.isfinite(total) or not any(parameter.grad is not None for parameter in module.parameters()):
        msg = f"its loss is {float(total)}; needed: a number with a gradient"
        raise UsageError(msg)
    return recipe, min(values, default=math.inf)


@contextmanager
def _normalized(module: nn.Module) -> Iterator[list[int]]:
    """A list that gets how many values of a channel every batch normalization of images has.

    One of rows has as many as there are rows, whatever the size of the images.
    """
    values = list[int]()

    def note(_module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs[0].dim() > 2:  # noqa: PLR2004  rows and channels
            values.append(inputs[0].numel() // inputs[0].shape[1])

    hooks = [one.register_forward_pre_hook(note) for one in module.modules() if isinstance(one, _BatchNorm)]
    yield values
    for hook in hooks:
        hook.remove()


def _with_targets(recipe: Recipe, output: Tensor) -> Recipe:
    """The recipe whose targets fit the output; `UsageError` where they cannot."""
    if recipe.loss == "own":
        return recipe
    row = tuple(output.shape[1:])
    if recipe.loss == "mse":
        return msgspec.structs.replace(recipe, targets=msgspec.structs.replace(recipe.targets, row=row))
    if row != (recipe.targets.high,):
        msg = f"its output is {tuple(output.shape)}; needed for its classes: ({ROWS}, {recipe.targets.high})"
        raise UsageError(msg)
    return recipe
