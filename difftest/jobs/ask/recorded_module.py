"""A case of a module of a recorded run: with the inputs, the parameters and the placements that it had there.

The case's model is a file in the working directory, which is written here: it takes the module out of the
model that the user's function builds, and holds what the module was given as text. So the case is one of a
model of the user's, and everything that takes such a case takes this one.
"""

import base64
import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from difftest.cases.case import Case
from difftest.cases.layers.own import SOURCE
from difftest.cases.layout import AXIS_NAMES, Mesh
from difftest.ground.errors import UsageError
from difftest.jobs.ask.own_model import describe_source
from difftest.runs import layout
from difftest.runs.layout import ARGUMENT, PARAMETER
from difftest.runs.read import RecordedRun, read

MOST_BYTES = 32 << 20
"""The size of the arrays that a case's file may hold."""

MOST_ROWS = 16

LINE = 100
"""The characters of a line of the file's data."""

FILE = '''\
"""The module {module} in step {step} of {run}, as `difftest case --from` has written it.

It is taken out of the model that {source} builds. What it was given and its parameters are in DATA.
"""

import base64
import io

import numpy
import torch

from {place} import {function} as build_whole

MODULE = {module!r}
FORM = {form!r}
ROWS = {rows!r}
"""The tensors among the arguments whose dim 0 is the batch's."""

CONSTANTS = {constants!r}
"""The other tensors among the arguments."""

PLAN = {plan!r}

DATA = """
{data}
"""

ARRAYS = {{
    name: torch.from_numpy(array)
    for name, array in numpy.load(io.BytesIO(base64.b64decode(DATA)), allow_pickle=False).items()
}}


def filled(form, tensors):
    """The value of a form, whose tensors are given by number."""
    ((kind, value),) = form.items()
    if kind == "tensor":
        return tensors[value]
    if kind == "dict":
        return {{name: filled(one, tensors) for name, one in value.items()}}
    if kind in ("list", "tuple"):
        return {{"list": list, "tuple": tuple}}[kind](filled(one, tensors) for one in value)
    return value


class Recorded(torch.nn.Module):
    """The module, with the arguments that are no rows of the batch."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        for number in CONSTANTS:
            self.register_buffer(f"constant_{{number}}", ARRAYS[str(number)])

    def forward(self, *rows):
        tensors = dict(zip(ROWS, rows, strict=True))
        tensors |= {{number: getattr(self, f"constant_{{number}}") for number in CONSTANTS}}
        arguments = [filled(one, tensors) for one in FORM["arguments"]]
        keywords = {{name: filled(one, tensors) for name, one in FORM["keywords"].items()}}
        output = self.module(*arguments, **keywords)
        while not isinstance(output, torch.Tensor):
            output = next(iter(output.values() if isinstance(output, dict) else output))
        return output


def build(seed):
    module = build_whole(seed).get_submodule(MODULE)
    with torch.no_grad():
        for name, value in (*module.named_parameters(), *module.named_buffers()):
            if (kept := ARRAYS.get(f"parameter {{name}}")) is not None:
                value.copy_(kept)
    return Recorded(module)


def batch(generator, rows):
    chosen = torch.randint(len(ARRAYS[str(ROWS[0])]), (rows,), generator=generator)
    inputs = tuple(ARRAYS[str(number)][chosen] for number in ROWS)
    return inputs, ARRAYS["gradient"][chosen] if "gradient" in ARRAYS else torch.zeros(rows, 1)


def loss(outputs, targets):
    """The recorded gradient of the output is that of this loss; without it, the mean square."""
    if targets.shape == outputs.shape:
        return (outputs * targets).flatten(1).sum(1).mean()
    return outputs.flatten(1).square().mean()


def plan(mesh):
    from torch.distributed.tensor import Replicate, Shard

    return {{
        name: [Replicate() if dim is None else Shard(dim) for dim in cut] for name, cut in PLAN.items()
    }}
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The module `path` in a step of a run, and the source of the whole model."""

    folder: Path
    step: int
    path: str
    source: str


def recorded_case(wanted: Wanted, seed: int) -> Case:
    """Writes the file of the model, and returns the case.

    `UsageError` where the run lacks what is needed, or the module is none that can be compared.
    """
    from generators.own import case_at

    run = read(wanted.folder)
    arrays = _arrays(run, wanted)
    mesh, plan = _plan(run, wanted.path)
    file = Path(f"recorded_{re.sub(r'[^A-Za-z0-9]+', '_', wanted.path)}_{wanted.step}.py")
    file.write_text(_source(run, wanted, arrays, plan))
    description = describe_source(f"{file}:build", (mesh,))
    case = case_at(description, seed, 0, max_world_size=mesh.world_size)
    parts = int(np.prod([size for name, size in case.layout.mesh.axes if name in case.layout.batch_axes]))
    recorded = _dtype(run, wanted.path)
    return msgspec.structs.replace(
        case,
        dtype=recorded if recorded in description.dtypes else "float32",
        training=msgspec.structs.replace(
            case.training, optimizer="sgd", steps=1, accumulation=1, clip_norm=None
        ),
        data=msgspec.structs.replace(case.data, batch=parts * max(1, MOST_ROWS // parts)),
    )


def _arrays(run: RecordedRun, wanted: Wanted) -> dict[str, Any]:
    """What the module was given on the first rank that has it."""
    if wanted.step not in run.steps:
        msg = f"{run.name} has no step {wanted.step}; recorded: {', '.join(map(str, run.steps))}"
        raise UsageError(msg)
    modules = {module.path for rank in run.ranks for module in rank.environment.modules}
    if wanted.path not in modules:
        msg = f"{run.name} has no module {wanted.path!r}; `{layout.stem(0)}.jsonl` lists them"
        raise UsageError(msg)
    for rank in run.ranks:
        file = run.folder / f"{layout.stem(rank.environment.rank)}.step-{wanted.step:08}.npz"
        if file.is_file():
            with np.load(file, allow_pickle=False) as arrays:
                if f"{ARGUMENT}:{wanted.path}" in arrays:
                    return {name: arrays[name] for name in arrays.files}
    msg = (
        f"{run.name} does not have what {wanted.path} was given in step {wanted.step}; record it again with "
        f"difftest.record(..., whole={wanted.path!r})"
    )
    raise UsageError(msg)


def _source(
    run: RecordedRun, wanted: Wanted, arrays: Mapping[str, Any], plan: Mapping[str, tuple[int | None, ...]]
) -> str:
    """The text of the file."""
    path, matched = wanted.path, SOURCE.fullmatch(wanted.source)
    if not matched:
        msg = f"--model is {wanted.source!r}; needed: package.module:function or file.py:function"
        raise UsageError(msg)
    form = msgspec.json.decode(arrays[f"{ARGUMENT}:{path}"].tobytes())
    if '{"object"' in arrays[f"{ARGUMENT}:{path}"].tobytes().decode():
        msg = f"{path} is called with objects, which a case does not have: {form}"
        raise UsageError(msg)
    rows = form["rows"]
    if not rows:
        msg = f"{path} is called without tensors, so a case of it has no inputs"
        raise UsageError(msg)
    numbers = [name.rpartition(":")[2] for name in arrays if name.startswith(f"{ARGUMENT}:{path}:")]
    return FILE.format(
        module=path,
        step=wanted.step,
        run=run.name,
        source=wanted.source,
        place=matched["place"].removesuffix(".py").replace("/", "."),
        function=matched["name"],
        form=form,
        rows=rows,
        constants=[number for number in map(int, numbers) if number not in rows],
        plan=dict(plan),
        data="\n".join(textwrap.wrap(_packed(arrays, path, numbers, rows[0]), LINE)),
    )


def _packed(arrays: Mapping[str, Any], path: str, numbers: Sequence[str], first: int) -> str:
    """The arguments, the parameters and the gradient of the output, as the text of an npz file."""
    kept: dict[str, Any] = {number: arrays[f"{ARGUMENT}:{path}:{number}"] for number in numbers}
    prefix = f"{PARAMETER}:{path}:"
    kept |= {
        f"parameter {name.removeprefix(prefix)}": array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    gradient, rows = arrays.get(f"{layout.OUTPUT_GRADIENT}:{path}"), len(kept[str(first)])
    if gradient is not None and len(gradient) == rows:
        kept["gradient"] = gradient * rows
    packed = io.BytesIO()
    np.savez_compressed(packed, **kept)
    if packed.tell() > MOST_BYTES:
        msg = f"{path} and its inputs take {packed.tell():,} bytes; at most {MOST_BYTES:,} go into a case"
        raise UsageError(msg)
    return base64.b64encode(packed.getvalue()).decode()


def _dtype(run: RecordedRun, path: str) -> Any:  # noqa: ANN401  a DType
    """That of the module's output."""
    outputs = (
        tensor for rank in run.ranks for tensor in rank.tensors.values() if tensor.kind == layout.OUTPUT
    )
    return next((output.dtype for output in outputs if output.owner == path), "float32")


def _plan(run: RecordedRun, path: str) -> tuple[Mesh, dict[str, tuple[int | None, ...]]]:
    """The mesh of the module's parameters, by the axes that difftest has, and how each axis cuts them."""
    prefix = f"{path}." if path else ""
    placed = {
        tensor.owner.removeprefix(prefix): tensor
        for rank in run.ranks
        for tensor in rank.tensors.values()
        if tensor.kind == layout.UPDATED and tensor.owner.startswith(prefix)
    }
    axes = max((one.mesh for one in placed.values()), key=len, default=())
    if not axes:
        return Mesh((("dp", run.environment.data_ranks),)), {f"module.{name}": (None,) for name in placed}
    cuts = {
        f"module.{name}": one.cut if one.mesh == axes else (None,) * len(axes) for name, one in placed.items()
    }
    return Mesh(tuple(zip(_names(run, axes), (size for _, size in axes), strict=True))), cuts


def _names(run: RecordedRun, axes: tuple[tuple[str, int], ...]) -> list[str]:
    """The axes' names where difftest has them; else the data's is `dp_shard`, and another `tp`."""
    names = [name for name, _ in axes]
    if all(name in AXIS_NAMES for name in names):
        return names
    if len(names) == 1:
        return ["dp_shard" if run.environment.data_ranks == axes[0][1] else "tp"]
    return ["dp_shard", "tp"] if len(names) == 2 else ["dp_replicate", "dp_shard", "tp"]  # noqa: PLR2004
