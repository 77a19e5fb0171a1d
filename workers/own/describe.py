"""Describes a module of the user's, in a process of its own: `python -P -m workers.own.describe`.

Every line of standard input is a JSON object, `{"source": ..., "meshes": [...]}`, for which it prints a line
`{"description": ...}`, or `{"error": ...}` with a sentence for the user. The module is built and run once in
every dtype, with a batch of few rows, on the CPU.
"""

import gc
import inspect
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeAlias

import msgspec
import torch
from torch import Tensor, nn

from difftest.cases.case import DType
from difftest.cases.described import Answer, Description, DescriptionRequest
from difftest.cases.layers.own import SOURCE, Own
from difftest.cases.recipe import BUILD, NAMED, Recipe
from difftest.ground import sources
from difftest.ground.errors import UsageError
from workers.own import fitting, loaded, loops, made, masks, optimizers, placed, recipes, styles
from workers.own.rows import Rows, rows_of
from workers.own.trial import ROWS, Trial, TrialBatch, explained

SEED = 1
DTYPES: tuple[DType, ...] = ("float32", "bfloat16", "float16")
OURS = ("difftest", "generators", "reports", "workers")

Loss: TypeAlias = Literal["mse", "cross_entropy", "own"]


def description(request: DescriptionRequest) -> Description:
    """What is known of the source; `UsageError` where it is no model that can be compared."""
    loops.replaced()
    loops.CALLED.clear()
    origin = _origin(request.source)
    functions = origin.functions
    batch = _batch(functions)

    def build() -> nn.Module:
        return _built(functions, origin.function, request.source)

    trial = Trial(functions, build, batch, _loss(functions, batch))
    trial.require_comparable()
    refused: dict[str, str] = {
        dtype: reason for dtype in DTYPES if (reason := trial.refusal(getattr(torch, dtype)))
    }
    if "float32" in refused:
        raise UsageError(refused["float32"])
    rows = rows_of(trial)
    layer = _layer(trial, rows, request.source, origin)
    return Description(
        layer=layer,
        loss=trial.loss,
        optimizer=hasattr(functions, "optimizer"),
        optimizer_saved=optimizers.is_saved(trial),
        dtypes=tuple(dtype for dtype in DTYPES if dtype not in refused),
        refused=refused,
        unused=trial.has_unused(),
        noise=trial.noise(),
        mean_of_means=rows.off,
        unequal_loss=rows.apart and not rows.add_up,
        decomposed=tuple(sorted(trial.decomposed)),
        left_out=rows.left_out,
        layouts=placed.layouts(functions, layer, request.meshes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOrigin:
    """Where a model comes from: the user's files with their digests, or a recipe."""

    functions: ModuleType
    function: str
    files: dict[str, str] = field(default_factory=dict)
    recipe: Recipe | None = None


def _origin(source: str) -> ModelOrigin:
    """What a source has; `UsageError` where it is none."""
    if NAMED.fullmatch(source):
        masks.install()
        recipe = fitting.fitted(source)
        return ModelOrigin(
            functions=recipes.functions(msgspec.json.encode(recipe)), function=BUILD, recipe=recipe
        )
    matched = SOURCE.fullmatch(source)
    if not matched:
        msg = (
            f"--model is {source!r}; allowed: package.module:function, file.py:function, or a name such as "
            "hf:llama (`difftest models`)"
        )
        raise UsageError(msg)
    before = {*sys.modules}
    with explained(f"importing {matched['place']}"):
        functions = loaded.imported(matched["place"])
    return ModelOrigin(functions=functions, function=matched["name"], files=_files(before, matched["place"]))


def _layer(trial: Trial, rows: Rows, source: str, origin: ModelOrigin) -> Own:
    parameters, tied = _parameters(trial.module)
    cut, sizes = styles.cuts(trial, tied)
    return Own(
        source=source,
        files=origin.files,
        recipe=origin.recipe,
        parameters=parameters,
        tied=tied,
        inputs=tuple(trial.batch.inputs),
        takes_dict=trial.takes_dict,
        fed_dict=trial.batch.is_dict,
        modules={name: type(inner).__name__ for name, inner in trial.module.named_modules()},
        lines=_lines(trial.module),
        rowwise=rows.add_up,
        parts_run=rows.parts_run,
        mean_over="targets" if trial.loss == "own" and rows.of_targets else "rows",
        results=rows.results,
        returns_object=trial.returns_object,
        kept=rows.kept,
        optimizer_by_shape=optimizers.by_shape(trial),
        styled=cut,
        styled_on=sizes,
        reads=trial.reads(),
        mixes_tensors=trial.mixes(),
        loops=tuple(sorted(loops.CALLED)),
    )


def _built(functions: ModuleType, name: str, source: str) -> nn.Module:
    function = getattr(functions, name, None)
    if not callable(function):
        msg = f"{source.partition(':')[0]} has no function {name}"
        raise UsageError(msg)
    with explained(f"{name}({SEED})"), loaded.seeded(SEED):
        module = function(SEED)
    if not isinstance(module, nn.Module):
        msg = f"{name}({SEED}) returns {type(module).__name__}; needed: a torch.nn.Module"
        raise UsageError(msg)
    if not any(parameter.requires_grad for parameter in module.parameters()):
        msg = f"{name}({SEED}) returns a module without parameters to train"
        raise UsageError(msg)
    return module


def _batch(functions: ModuleType) -> TrialBatch:
    """A batch of few rows; `UsageError` unless the same generator gives the same batch again."""
    batches = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(SEED)
        with explained(f"{loaded.BATCH}(generator, {ROWS})"):
            given = functions.batch(generator, ROWS)
            batches.append(TrialBatch(*made.split(given, ROWS), is_dict=isinstance(given, Mapping)))
    for first, second in zip(*(batch.tensors() for batch in batches), strict=True):
        if not torch.equal(first, second):
            msg = f"{loaded.BATCH} gives another batch for the same generator; it must draw from that alone"
            raise UsageError(msg)
    return batches[0]


def _loss(functions: ModuleType, batch: TrialBatch) -> Loss:
    """The user's loss, that of a module which is given the targets too, or the one for such targets."""
    if hasattr(functions, "loss") or batch.is_dict:
        return "own"
    return "mse" if batch.targets.is_floating_point() else "cross_entropy"


def _parameters(module: nn.Module) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """The shapes of parameters by their first names, and the names of those that are other names of them."""
    first: dict[Tensor, str] = {}
    tied = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if first.setdefault(parameter, name) != name:
            tied[name] = first[parameter]
    return {name: tuple(parameter.shape) for parameter, name in first.items()}, tied


def _lines(module: nn.Module) -> dict[str, str]:
    """Where the forward of every class inside begins, but for torch's own classes."""
    lines = {}
    for kind in {type(inner) for inner in module.modules()}:
        code = getattr(inspect.unwrap(kind.forward), "__code__", None)
        if code is None or kind.__module__.partition(".")[0] == "torch":
            continue
        file = Path(code.co_filename).resolve()
        here = Path.cwd().resolve()
        shown = file.relative_to(here) if file.is_relative_to(here) else Path(*kind.__module__.split("."))
        lines[kind.__name__] = f"{shown.with_suffix('.py').as_posix()}:{code.co_firstlineno}"
    return dict(sorted(lines.items()))


def _files(before: set[str], place: str) -> dict[str, str]:
    """The digests of the user's files: those of the working directory that were imported since."""
    here, prefix = Path.cwd().resolve(), Path(sys.prefix).resolve()
    names = {
        Path(file).resolve()
        for name, module in list(sys.modules.items())
        if name not in before and name.partition(".")[0] not in OURS
        if (file := getattr(module, "__file__", None)) and file.endswith(".py")
    }
    own = {file for file in names if file.is_relative_to(here) and not file.is_relative_to(prefix)}
    own.add(loaded.found(place)[0])
    return {file.relative_to(here).as_posix(): sources.digest(file) for file in sorted(own)}


def main() -> None:
    """Answers the requests on standard input; what the user's code prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.freeze()  # else this process looks for garbage in what it has imported, as it ends for 2 s
    for line in sys.stdin.buffer:
        answers.write(msgspec.json.encode(_answer(line)) + b"\n")
        answers.flush()


def _answer(request: bytes) -> Answer:
    try:
        return Answer(description=description(msgspec.json.decode(request, type=DescriptionRequest)))
    except UsageError as error:
        return Answer(error=str(error))
    except Exception:  # noqa: BLE001  the user's code may raise anything
        return Answer(error=f"the model could not be described:\n{traceback.format_exc()}")


if __name__ == "__main__":
    main()
