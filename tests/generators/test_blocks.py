"""Building blocks: what a file declares, how models of the path `blocks` are drawn, and what may not be."""

import dataclasses
import itertools
import json
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quiet_draws import quietly
from samples import a_case

from difftest.cases import block as blocks
from difftest.cases import numbers
from difftest.cases.blocks import names
from difftest.cases.case import Case
from difftest.cases.layers.building_block import BuildingBlock
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Replicate, Shard
from difftest.cases.model import Model
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from difftest.judge.checks import buffers, parameters
from difftest.judge.events import Events
from difftest.judge.measured import measure_run
from difftest.judge.outcome import Sharded, Trace
from difftest.judge.stage import Stage
from generators.cases import case_at, cases
from generators.chances import drawn_from
from reports.reproducer.refusal import refusal
from workers.backends import torch_ddp

PATH = "blocks"
NORM = {"width": 4, "momentum": 0.5, "affine": True, "train": True}
MEAN, COUNT = "1.norm.running_mean", "1.norm.num_batches_tracked"


def block_of(case: Case) -> BuildingBlock:
    (block,) = (layer for layer in case.model.layers if isinstance(layer, BuildingBlock))
    return block


def with_norm(**arguments: object) -> Case:
    """A Linear layer and a batch norm over two replicas."""
    norm = blocks.layer("batch_norm", {**NORM, **arguments})  # type: ignore[dict-item]
    layers = (Linear(inputs=4, outputs=4), norm)
    case = a_case(layers=(Linear(inputs=4, outputs=4),))
    model = Model(layers=layers)
    parameters = dict.fromkeys(model.tensors(), (Replicate(),))
    layout = msgspec.structs.replace(case.layout, parameters=parameters)
    return msgspec.structs.replace(case, model=model, layout=layout, path=PATH)


def test_every_block_is_declared_and_built() -> None:
    assert names() == plugins.names("workers.training.blocks")


@pytest.mark.parametrize("name", names())
@quietly()
@given(data=st.data())
def test_a_declaration_fits_the_blocks_arguments(name: str, data: st.DataObject) -> None:
    arguments = data.draw(drawn_from(blocks.arguments_of(name).drawn(2)))
    declared, layer = blocks.declared(name, arguments), blocks.layer(name, arguments)
    assert not layer.contradiction()
    assert set(declared.cuts) <= set(declared.parameters)
    for parameter, dims in declared.cuts.items():
        assert set(dims) <= set(range(len(declared.parameters[parameter])))
    assert all(size > 0 for shape in declared.parameters.values() for size in shape)


def test_an_unknown_block_is_refused() -> None:
    with pytest.raises(UsageError, match="swiglu"):
        blocks.layer("swigloo", {})


@pytest.mark.long
@quietly()
@given(cases(paths=(PATH,), max_world_size=4))
def test_a_drawn_case_is_read_back_and_has_usual_numbers_and_whole_buffers(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    assert case.data.regime == "normal"
    for name in case.model.statistics():
        assert set(case.layout.parameters[name]) == {Replicate()}
    assert numbers.weights(case).keys() == case.model.parameters().keys()


@pytest.mark.long
def test_the_path_draws_every_block() -> None:
    drawn = (
        block_of(case_at(3, index, paths=(PATH,), max_world_size=4)).block for index in itertools.count()
    )
    assert {name for _, name in zip(range(160), drawn, strict=False)} == set(names())


@pytest.mark.long
def test_tensor_parallelism_cuts_what_a_block_allows() -> None:
    placed = set()
    for index in range(60):
        case = case_at(4, index, paths=(PATH,), max_world_size=2)
        block = block_of(case)
        at = case.model.layers.index(block)
        cuts = blocks.declared(block.block, block.arguments).cuts
        for name in block.parameters:
            dims = {p.dim for p in case.layout.parameters[f"{at}.{name}"] if isinstance(p, Shard)}
            assert dims <= {0, *cuts.get(name, ())}
            placed |= {(block.block, dim) for dim in dims}
    assert ("swiglu", 1) in placed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counters": ("norm.steps",)}, "no buffer norm.steps to count in"),
        ({"positions": True}, "needs a sequence; the model's sequence is 0"),
    ],
)
def test_a_block_that_contradicts_itself_or_its_model_is_refused(
    changes: dict[str, object], message: str
) -> None:
    norm = msgspec.structs.replace(blocks.layer("batch_norm", NORM), **changes)
    with pytest.raises(ValueError, match=message):
        Model(layers=(norm, Linear(inputs=4, outputs=2)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": "../x"}, "unknown block '../x'; allowed: "),
        ({"arguments": NORM | {"width": 10**7}}, "width: a whole number from 1 to 4096"),
        ({"arguments": NORM | {"train": "id()"}}, "train: true or false"),
        ({"arguments": NORM | {"x=id(), y": 1}}, "field `x=id"),
        ({"arguments": {}}, "missing required field `width`"),
    ],
)
def test_a_case_whose_block_has_other_arguments_is_refused(changes: dict[str, object], message: str) -> None:
    text = json.loads(with_norm().to_json())
    next(one for one in text["model"]["layers"] if one["type"] == "building_block").update(changes)
    with pytest.raises(UsageError, match=re.escape(message)):
        Case.from_json(json.dumps(text))


def test_replicas_refuse_a_block_in_which_rows_influence_each_other() -> None:
    assert "rows influence each other" in (torch_ddp.unsupported(with_norm()) or "")
    assert torch_ddp.unsupported(with_norm(train=False)) is None


def test_a_block_has_a_reproducer() -> None:
    assert refusal(with_norm(train=False), "torch_ddp") is None


CASE = with_norm()
STATE = {"0.weight": "float32", MEAN: "float32", COUNT: "int64"}


def a_trace(case: Case, mean: float = 0.25, count: int = 1, state: dict[str, str] | None = None) -> Trace:
    """One step that has two buffers alone, the same on all ranks."""
    ranks = range(case.world_size)
    values = {MEAN: (np.full(4, mean), "float32"), COUNT: (np.array(count), "int64")}
    step = {
        (Stage.UPDATE, name): Sharded(
            shape=value.shape, dtype=dtype, placements=(Replicate(),), pieces=dict.fromkeys(ranks, value)
        )
        for name, (value, dtype) in values.items()
    }
    return Trace(steps=(step,), events=Events(state=STATE if state is None else state))


def natures(actual: Trace) -> list[tuple[str, str]]:
    """The tensor and the nature of every divergence of the check; rounding is 1e-8."""
    alone = CASE.unsharded()
    noise = {
        key: dataclasses.replace(tensor, pieces={0: np.full(tensor.shape, 1e-8)})
        for key, tensor in a_trace(alone).steps[0].items()
    }
    truth = dataclasses.replace(a_trace(alone), noise=(noise,))
    run = measure_run(CASE, "xla_spmd", "xla", truth, actual)
    assert not list(parameters.check(run))
    return [(divergence.tensor, divergence.nature) for divergence in buffers.check(run)]


def test_equal_buffers_agree() -> None:
    assert natures(a_trace(CASE)) == []


@pytest.mark.parametrize(
    ("actual", "tensor", "nature"),
    [
        (a_trace(CASE, mean=0.75), MEAN, "times a constant"),
        (a_trace(CASE, count=3), COUNT, ""),
        (a_trace(CASE, state={**STATE, COUNT: "int32"}), COUNT, "dtype"),
        (a_trace(CASE, state={"0.weight": "float32", MEAN: "float32"}), COUNT, "missing entry"),
        (a_trace(CASE, state={**STATE, "1.norm.steps": "int64"}), "1.norm.steps", "unexpected entry"),
    ],
)
def test_a_wrong_buffer_and_a_wrong_entry_are_found_by_their_check_alone(
    actual: Trace, tensor: str, nature: str
) -> None:
    assert natures(actual) == [(tensor, nature)]
