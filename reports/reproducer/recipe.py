"""The source file of a model by name, as somebody would write it who has the package alone."""

from collections.abc import Iterator

from difftest.cases.recipe import CHANCES, Feed, Recipe
from difftest.cases.script_values import python

FILE = "model.py"


def text(source: str, recipe: Recipe) -> str:
    """What builds and feeds the model of a recipe, in Python."""
    fed = [feed.name for feed in recipe.inputs]
    drawn = (*recipe.inputs, *([] if recipe.targets.name in fed else [recipe.targets]))
    pairs = ", ".join(f'"{name}": {_variable(name)}' for name in fed)
    listed = "".join(f"{_variable(name)}, " for name in fed).strip()
    inputs = f"({listed})" if all(name.isdigit() for name in fed) else f"{{{pairs}}}"
    lines = [
        f'"""{source} at a small size, with random weights."""',
        "",
        "import torch",
        f"import {recipe.package}",
        "",
        "",
        "def build(seed):",
        *_built(recipe),
        "",
        "",
        "def batch(generator, rows):",
        *(f"    {_variable(feed.name)} = {_draw(feed)}" for feed in drawn),
        f"    return {inputs}, {_variable(recipe.targets.name)}",
    ]
    if recipe.loss == "own":
        lines += ["", "", "def loss(outputs, targets):", "    return outputs.loss"]
    return "\n".join(lines) + "\n"


def _built(recipe: Recipe) -> list[str]:
    """The lines that build the model, and do to it what its arguments cannot say."""
    changes = [*_changes(recipe)]
    if not changes:
        return [f"    return {_call(recipe)}"]
    return [f"    model = {_call(recipe)}", *changes, "    return model"]


def _changes(recipe: Recipe) -> Iterator[str]:
    for path, length in recipe.cut.items():
        yield f"    del model.get_submodule({path!r})[{length}:]"
    if recipe.head:
        inside = f"model.{recipe.head}.modules()"
        yield f"    width = next(one.in_features for one in {inside} if isinstance(one, torch.nn.Linear))"
        yield f"    model.{recipe.head} = torch.nn.Linear(width, {recipe.targets.high or 1})"
    if recipe.calm:
        yield "    for module in model.modules():"
        yield f"        for name in {python(CHANCES)}:"
        yield "            if isinstance(getattr(module, name, None), float):"
        yield "                setattr(module, name, 0.0)"


def _call(recipe: Recipe) -> str:
    arguments = ", ".join(f"{name}={python(value)}" for name, value in recipe.arguments.items())
    rest = f", {arguments}" if arguments else ""
    if recipe.package == "timm":
        return f"timm.create_model({recipe.call!r}, pretrained=False{rest})"
    if recipe.package == "torchvision":
        return f"torchvision.models.get_model({recipe.call!r}, weights=None{rest})"
    if recipe.config is None:
        return f"{recipe.package}.{recipe.call}({arguments})"
    return f"{recipe.package}.{recipe.call}({recipe.package}.{recipe.config}({arguments}))"


def _draw(feed: Feed) -> str:
    shape = ", ".join(map(str, feed.row))
    if feed.high is None:
        return f"torch.randn({f'rows, {shape}' if shape else 'rows'}, generator=generator)"
    return f"torch.randint(0, {feed.high}, (rows, {shape}), generator=generator)"


def _variable(name: str) -> str:
    return f"input_{name}" if name.isdigit() else name
