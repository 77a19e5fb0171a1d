"""The outputs and the loss of a case in float64, where one of its layers gives other numbers.

Only a building block alone or between Linear layers is modelled, as the path `blocks` has it.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from difftest.cases import numbers
from difftest.cases.layers.building_block import BuildingBlock
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import local_slices
from difftest.cases.numbers import IGNORE_INDEX
from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.noise import THRESHOLD
from difftest.judge.outcome import Array
from difftest.judge.stage import Stage

Layer: TypeAlias = Callable[[BuildingBlock, Mapping[str, Floats], Array], Floats | None]
"""What the fault makes of the block's inputs, with its parameters by name; None where it is not modelled."""


def predicted(run: MeasuredRun, at: Key, name: str, layer: Layer) -> bool:
    """Whether an output, or the loss, is what the case gives with `layer` in the place of a block `name`."""
    step, stage, tensor = at
    case = run.case
    places = [one for one in case.model.layers if isinstance(one, BuildingBlock) and one.block == name]
    if stage is not Stage.FORWARD or case.model.own or not places:
        return False
    batch, total = numbers.batch(case, step), 0.0
    for part in range(case.training.accumulation):
        rows = batch.rows(slice(part * case.part_rows, (part + 1) * case.part_rows))
        output = _output(run, step, rows.inputs, layer)
        if output is None:
            return False
        if tensor == named(part):
            return is_near(run, at, output)
        total += float(losses(case.training.loss, output, rows.targets).sum()) / batch.count
    return tensor == "loss" and is_near(run, at, np.array(total))


def named(part: int) -> str:
    """The name of the output of an accumulation part."""
    return f"output.{part}" if part else "output"


def is_near(run: MeasuredRun, at: Key, predicted: Floats) -> bool:
    """Whether a tensor is `predicted` up to rounding, and the oracle's is not."""
    truth, floors, actual = run.beside(at)
    value = actual.full(run.case.layout.mesh)
    near, right = (np.abs(one - predicted) <= THRESHOLD * floors for one in (value, truth))
    return bool(near.all() and not right.all())


def places(run: MeasuredRun, values: Array) -> list[tuple[slice, ...]]:
    """Where in a batch the rows of each rank are."""
    layout, ranks = run.case.layout, range(run.case.world_size)
    return [local_slices(values.shape, layout.batch, layout.mesh, rank) for rank in ranks]


def shards(run: MeasuredRun, values: Array) -> list[Array]:
    """The rows of a batch that each rank has."""
    return [values[place] for place in places(run, values)]


def losses(kind: str, output: Floats, targets: Array) -> Floats:
    """The loss of every value, or of every row; 0 of those that are ignored."""
    if kind == "mse":
        return np.asarray((output - targets) ** 2)
    valid = targets != IGNORE_INDEX
    chosen = np.take_along_axis(log_softmax(output), np.where(valid, targets, 0)[..., None], -1)[..., 0]
    return np.asarray(-chosen * valid)


def log_softmax(scores: Floats) -> Floats:
    """Of the last dim."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _output(run: MeasuredRun, step: int, value: Array, layer: Layer) -> Floats | None:
    """The model's output for some rows, with the parameters that the oracle has before the step."""
    weights = numbers.weights(run.case)
    if step:
        weights = {
            name: np.asarray(run.truth((step - 1, Stage.UPDATE, name))[0], np.float64) for name in weights
        }
    for index, one in enumerate(run.case.model.layers):
        own = {name: weights[f"{index}.{name}"] for name in one.shapes()}
        if isinstance(one, Linear):
            value = value @ own["weight"].T + (own["bias"] if one.bias else 0.0)
        elif isinstance(one, BuildingBlock) and (after := layer(one, own, value)) is not None:
            value = after
        else:
            return None
    return np.asarray(value, np.float64)
