"""DTensor on XLA: three ways to redistribute, FSDP, and activations that change their placements.

The tests show which of these work, and where the others fail.
"""

from itertools import product

import msgspec
import pytest
from installed_packages import skip_without
from real_runs import agrees, compared, greatest_relative_error, shared
from sharded_cases import CASES, GRID, HYBRID, S0, S1, SHARDED, TOLERANCE, R, a_sharded_case

from difftest.cases.case import Case, Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.dropout import Dropout
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layout import Placements
from difftest.cases.model import Model
from difftest.cases.options import Feature
from difftest.judge.outcome import Failure, Trace
from difftest.judge.stage import Stage
from workers.backends import xla_annotated, xla_fsdp
from workers.isolate import sandbox

pytestmark = pytest.mark.slow

xla = pytest.mark.xla
installed = skip_without("torch_xla")

TALL = Model(layers=(Linear(inputs=4, outputs=8), Activation(function="tanh"), Linear(inputs=8, outputs=9)))
CONVERSIONS = ("redistribute", "full_tensor", "to_local")
COLUMNS: dict[str, Placements] = {"1.weight": (R, S0), "1.bias": (R, S0)}


def move(width: int, by: str, dims: tuple[int | None, ...]) -> Redistribute:
    """Activations of `width` features move to `dims` and back."""
    return Redistribute(width=width, dims=dims, by=by)  # type: ignore[arg-type]


def moving(by: str, dims: tuple[int | None, ...]) -> Case:
    """The inputs, activations that are sharded by columns, and the outputs of a model move."""
    first, *others = TALL.layers
    layers = (move(4, by, dims), first, move(8, by, dims), *others, move(9, by, dims))
    return a_sharded_case(GRID, (S0, R), COLUMNS, model=Model(layers=layers), rows=5)


DIMS: list[tuple[int | None, ...]] = [(0, 0), (1, None), (None, 0), (1, 0)]
MOVES = {way: moving(*way) for way in product(CONVERSIONS, DIMS)}
moved = shared(MOVES, "torch_dtensor")


@pytest.mark.parametrize("way", MOVES, ids=str)
def test_every_way_of_moving_a_distributed_tensor_preserves_it(
    way: tuple[str, tuple[int | None, ...]],
) -> None:
    assert greatest_relative_error(MOVES[way], moved(way)) < TOLERANCE


def test_partial_sums_are_redistributed_to_replicas() -> None:
    model = Model(
        layers=(Linear(inputs=4, outputs=6), Redistribute(width=6, dims=(0, 1)), Linear(inputs=6, outputs=3))
    )
    case = a_sharded_case(GRID, (S0, R), {"0.weight": (R, S1)}, model=model, rows=4)
    assert greatest_relative_error(case, sandbox.run(case, "torch_dtensor")) < TOLERANCE


def test_plain_activations_are_not_redistributed() -> None:
    layers = (TALL.layers[0], Dropout(width=8), Redistribute(width=8, dims=(0, 1)), *TALL.layers[1:])
    case = a_sharded_case(
        GRID, (S0, R), {"0.weight": (R, S0), "0.bias": (R, S0)}, model=Model(layers=layers), rows=4
    )
    assert greatest_relative_error(case, sandbox.run(case, "torch_tp")) < TOLERANCE


@xla
@installed
@pytest.mark.parametrize("name", CASES)
def test_every_layout_works_if_annotated_in_place(name: str) -> None:
    assert xla_annotated.unsupported(CASES[name]) is None
    assert greatest_relative_error(CASES[name], sandbox.run(CASES[name], "xla_annotated")) < TOLERANCE


@xla
@installed
@pytest.mark.parametrize("backend", ["xla_dtensor", "xla_tp"])
def test_the_same_layout_fails_if_parameters_are_replaced(backend: str) -> None:
    outcome = sandbox.run(CASES["tensor_parallel"], backend)
    assert isinstance(outcome, Failure)
    assert outcome.stage is Stage.FORWARD


@xla
@installed
def test_a_backward_pass_that_autocast_makes_possible_has_gradients_that_are_looked_at() -> None:
    """They are DTensors, whose graphs are those of the tensors that they wrap."""
    case = msgspec.structs.replace(CASES["tensor_parallel"], features=(Feature(name="autocast"),))
    outcome = sandbox.run(case, "xla_dtensor")
    assert isinstance(outcome, Trace), outcome
    assert agrees(case, "xla_dtensor", outcome)


@xla
@installed
@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("redistribute", "'DeviceMesh' object has no attribute 'mesh_shape'"),
        (
            "full_tensor",
            "XLAShardedTensor.redistribute() missing 1 required positional argument: 'device_mesh'",
        ),
        ("to_local", "'XLAShardedTensor' object has no attribute '_local_tensor'"),
    ],
)
def test_no_way_of_moving_a_distributed_tensor_works_on_xla(by: str, message: str) -> None:
    """pytorch/xla#9472, in torch_xla 2.9.0."""
    model = Model(layers=(move(4, by, (0, None)), *TALL.layers))
    outcome = sandbox.run(a_sharded_case(GRID, (S0, R), model=model, rows=5), "xla_dtensor")
    assert isinstance(outcome, Failure)
    assert (outcome.stage, outcome.message) == (Stage.FORWARD, message)


@xla
@installed
@pytest.mark.parametrize(
    "case",
    [
        a_sharded_case(
            SHARDED,
            (S0,),
            {"": (S0,)},
            model=TALL,
            training=Training(steps=2, accumulation=2, clip_norm=0.25),
        ),
        a_sharded_case(HYBRID, (S0, S0), {"": (R, S0)}, model=TALL, rows=6),
    ],
    ids=["fully sharded", "hybrid"],
)
def test_fully_sharded_under_spmd_agrees_with_the_oracle(case: Case) -> None:
    assert xla_fsdp.unsupported(case) is None
    assert greatest_relative_error(case, sandbox.run(case, "xla_fsdp")) < TOLERANCE
    assert greatest_relative_error(case.unsharded(), sandbox.run(case.unsharded(), "xla_fsdp")) < TOLERANCE


@xla
@installed
@pytest.mark.parametrize(
    "feature",
    [
        Feature(name="autocast"),
        Feature(name="mixed_precision", options={"reduce": "float32", "output": "loss"}),
    ],
    ids=lambda feature: feature.name,
)
def test_fully_sharded_under_spmd_wraps_a_module_with_another_forward(feature: Feature) -> None:
    case = a_sharded_case(SHARDED, (S0,), {"": (S0,)}, model=TALL)
    comparison = compared(msgspec.structs.replace(case, features=(feature,)), "xla_fsdp")
    assert comparison.verdict == "agree", comparison


def test_the_wrapper_refuses_layouts_with_the_reason() -> None:
    assert "largest dim" in (xla_fsdp.unsupported(CASES["fully_sharded"]) or "")
    assert "over another" in (
        xla_fsdp.unsupported(a_sharded_case(HYBRID, (S0, S0), {"": (S0, S0)}, model=TALL)) or ""
    )
    assert "cuts the rows" in (xla_fsdp.unsupported(CASES["data_tensor"]) or "")


@xla
@installed
def test_a_parameter_that_is_frozen_when_it_is_distributed_is_not_trained() -> None:
    case = a_sharded_case(SHARDED, (S0,), {"": (S0,)}, model=TALL, training=Training(steps=2))
    features = (
        Feature(name="unfreezing", options={"name": "0.bias", "step": 1}),
        Feature(name="mixed_precision", options={"output": "loss", "reduce": "float32"}),
    )
    case = msgspec.structs.replace(case, features=features)
    outcome = sandbox.run(case, "xla_dtensor")
    assert agrees(case, "xla_dtensor", outcome), outcome
