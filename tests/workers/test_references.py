"""References of another make: definitions agree with torch where it is right, and with exact arithmetic."""

import dataclasses
import importlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from samples import oracle
from sharded_cases import a_sharded_case

from difftest.cases import numbers
from difftest.cases.case import Case, Data, Training
from difftest.cases.exactness import inexact
from difftest.cases.features import schedule
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.linear import Linear
from difftest.cases.model import Model
from difftest.cases.options import Feature
from difftest.cases.twins import PATH, is_twin, no_twin, twin
from difftest.ground import plugins
from difftest.judge.stage import Stage
from generators.cases import case_at
from workers import backends
from workers.backends import torch_eager
from workers.references import (
    blocks,
    clipping,
    definition,
    layers,
    optimizers,
    passes,
    schedules,
)
from workers.references.layers import Context, collective, logistic, softmax
from workers.references.operators.arithmetic import div
from workers.references.optimizers import Optimizer
from workers.references.passes import Passes

HALF = 0.5
STEPS = 12
"""Enough for RAdam to use its second moment, which it does from the sixth step on."""

RELATIVE = 1e-13

COARSER = {
    "ASGD": 1e-7,  # its rate is in float32: known/asgd_rate_in_float32.py
    "NAdam": 1e-9,  # the product of its momenta is in float32: known/nadam_product_in_float32.py
    "SparseAdam": 1e-10,  # its rate is a tensor of float32 in some options: 0.001 x 2**-24 off in each step
    "Muon": 1e-3,  # it computes in bfloat16
}
"""How far those optimizers may be off that keep a number in float32, or compute in bfloat16."""

MANY = 50


def test_the_twin_of_a_case_is_on_one_device_in_float64_with_the_same_seed() -> None:
    case = a_sharded_case()
    own = twin(case)
    assert (own.path, own.dtype, own.world_size, own.seed) == (PATH, "float64", 1, case.seed)
    assert own.model == case.model
    assert is_twin(own)
    assert twin(own) == own


def test_references_refuse_what_is_no_twin_and_other_backends_are_none() -> None:
    case = a_sharded_case()
    assert {"definitions", "torch_eager"} == set(backends.references())
    assert all(reference.unsupported(case) for reference in backends.references().values())
    assert no_twin(twin(case)) is None


def test_torch_runs_the_twin_of_a_program_where_it_may_use_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    program, training = twin(case_at(0, 0, paths=("operators",))), twin(a_sharded_case())
    assert program.model.is_program
    assert "it is a program" in str(torch_eager.unsupported(program))
    monkeypatch.setenv(torch_eager.GPU_VARIABLE, "1")
    assert [torch_eager.unsupported(case) for case in (program, training)] == [None, None]
    assert torch_eager.unsupported(a_sharded_case())


@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad", "rmsprop", "adadelta"])
def test_a_step_of_an_optimizer_goes_against_the_gradient(name: str) -> None:
    parameter, gradient = np.zeros(3), np.array([1.0, -2.0, 0.5])
    after = Optimizer(name).step("weight", parameter, gradient, {"lr": HALF})
    assert (np.sign(after) == -np.sign(gradient)).all()


def test_momentum_of_dyadic_numbers_is_exact() -> None:
    gradients = [Fraction(3, 4), Fraction(-1, 2), Fraction(5, 8)]
    parameter, velocity = Fraction(7, 2), Fraction(0)
    definition, value = Optimizer("sgd"), np.array([3.5])
    for step, gradient in enumerate(gradients):
        velocity = gradient if not step else velocity / 2 + gradient
        parameter -= (gradient + velocity / 2) / 4
        options = {"lr": 0.25, "momentum": HALF, "nesterov": True}
        value = definition.step("weight", value, np.array([float(gradient)]), options)
    assert Fraction(float(value[0])) == parameter


def test_adam_by_hand_has_the_rate_as_its_first_step() -> None:
    after = Optimizer("adam").step("weight", np.zeros(1), np.array([3.0]), {"lr": 0.125, "eps": 0.0})
    assert after[0] == pytest.approx(-0.125, rel=1e-15)


@pytest.mark.parametrize(
    ("parts", "received"),
    [
        ("uneven", [[0.0, 3.0, 4.0], [1.0, 2.0, 5.0]]),
        (msgspec.UNSET, [[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]),
    ],
)
def test_every_rank_gets_the_part_of_each_that_is_for_it(parts: Any, received: list[list[float]]) -> None:  # noqa: ANN401
    width = len(received[0])
    layer = Collective(
        operation="all_to_all", mesh=(2,), axis=0, width=width, learned="functional", parts=parts
    )
    context = Context(numpy=np, erf=None, weights={}, extras={}, path="")
    rows = np.arange(2.0 * width).reshape(2, width)
    assert collective.computed(layer, rows, context).tolist() == received


def test_the_state_of_one_parameter_is_not_that_of_another() -> None:
    definition = Optimizer("adagrad")
    one = [definition.step(name, np.zeros(1), np.ones(1), {"lr": 1.0})[0] for name in ("a", "b")]
    assert one[0] == one[1]


def test_gradients_are_clipped_as_one_vector_and_by_value() -> None:
    gradients = {"a": np.array([3.0]), "b": np.array([-4.0])}
    assert clipping.by_norm(gradients, 10.0) == gradients
    assert clipping.by_norm(gradients, 1.0)["b"][0] == pytest.approx(-0.8, rel=1e-6)
    assert clipping.by_norm(gradients, 1.0, np.inf)["a"][0] == pytest.approx(0.75, rel=1e-6)
    assert clipping.by_norm(gradients, 1.0, 0.0)["a"][0] == pytest.approx(1.5, rel=1e-6)
    assert clipping.by_norm(gradients, 1.0, 0.5)["b"][0] == pytest.approx(-4 / (7 + 48**0.5), rel=1e-6)
    assert clipping.by_value(gradients, 2.0) == {"a": np.array([2.0]), "b": np.array([-2.0])}


def test_gradients_of_modules_that_a_located_run_has_are_not_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "lacks", lambda _case: "only updates are compared")
    case = twin(a_sharded_case(training=Training(steps=2, clip_norm=HALF)))
    plain = oracle(case)
    gradient = plain.steps[0][Stage.BACKWARD, "0.weight"]
    steps = tuple({**step, (Stage.BACKWARD, "module 0"): gradient} for step in plain.steps)
    located = dataclasses.replace(plain, steps=steps)
    updates = [
        {key: tensor.pieces[0].tolist() for key, tensor in step.items() if key[0] is Stage.UPDATE}
        for trace in (plain, located)
        for step in definition.defined(case, trace).steps
    ]
    assert updates[:2] == updates[2:]


@pytest.mark.parametrize(
    ("kind", "rates"),
    [
        ("step", [1.0, 1.0, 0.5, 0.5, 0.25]),
        ("exponential", [1.0, 0.5, 0.25, 0.125, 0.0625]),
        ("linear", [0.5, 0.625, 0.75, 0.875, 1.0]),
        ("cosine", [1.0, 0.9267766952966369, 0.75, 0.5732233047033631, 0.5]),
        ("lambda", [1.0, 2 / 3, 0.5, 0.4, 1 / 3]),
        ("warmed", [0.5, 1.0, 0.9267766952966369, 0.75, 0.5732233047033631]),
        ("unwarmed", [1.0, 0.9267766952966369, 0.75, 0.5732233047033631, 0.5]),
        ("one_cycle", [0.5, 2 / 3, 5 / 6, 1.0, 0.875]),
        ("restarts", [1.0, 0.75, 1.0, 0.75, 1.0]),
        ("polynomial", [1.0, 0.75**0.5, 0.5**0.5, 0.5, 0.0]),
        ("chained", [0.5, 0.25, 0.25, 0.125, 0.0625]),
    ],
)
def test_a_schedule_has_the_rates_of_its_formula(kind: schedule.Kind, rates: list[float]) -> None:
    options = schedule.Options(kind=kind, factor=HALF)
    assert [schedules.rate(options, 1.0, step) for step in range(5)] == pytest.approx(rates, rel=1e-14)


@pytest.mark.parametrize(
    "changing",
    [
        Feature(name="parameter_hooks", options={"of": "sum"}),
        Feature(name="gradient_penalty", options={"factor": HALF}),
        Feature(name="forward_derivative", options={"factor": HALF, "form": "dual"}),
        Feature(name="changed_in_place", options={"by": "method"}),
    ],
)
def test_gradients_that_a_feature_changes_have_no_definition(changing: Feature) -> None:
    case = twin(a_sharded_case())
    assert not passes.lacks(case)
    assert changing.name in passes.lacks(msgspec.structs.replace(case, features=(changing,)))


def test_every_drawn_kind_of_layer_and_block_has_a_definition_or_is_listed() -> None:
    kinds = set(plugins.names("difftest.cases.layers")) - set(plugins.names(layers.__name__))
    assert kinds == {"module", "operator", "own", "routed_experts"}
    assert set(plugins.names("difftest.cases.blocks")) == set(blocks.names())


Gradient: TypeAlias = Callable[[Any, tuple[int, ...]], npt.NDArray[np.float64]]


def _dense(rng: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:  # noqa: ANN401  a generator
    return np.asarray(rng.standard_normal(shape))


def _of_few_rows(rng: Any, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:  # noqa: ANN401  a generator
    """Of every other row, from a drawn one on."""
    return np.where((np.arange(shape[0]) % 2 == rng.integers(2))[:, None], _dense(rng, shape), 0.0)


def _updated(
    kind: type,
    given: dict[str, object],
    shapes: dict[str, tuple[int, ...]],
    gradients: Gradient = _dense,
    *,
    sparse: bool = False,
) -> float:
    """The greatest relative difference between torch's optimizer and its definition over some steps."""
    torch = importlib.import_module("torch")
    rng = np.random.default_rng(0)
    values = {name: np.asarray(rng.standard_normal(shape)) for name, shape in shapes.items()}
    parameters = {name: torch.nn.Parameter(torch.from_numpy(value.copy())) for name, value in values.items()}
    optimizer = kind(list(parameters.values()), **given)
    definition, greatest = Optimizer(kind.__name__.lower()), 0.0
    options = {name: _plain(option) for name, option in given.items()}
    for step in range(STEPS):
        for name, parameter in parameters.items():
            gradient = np.asarray(gradients(rng, shapes[name]) * (1 + step % 3))
            grad = torch.from_numpy(gradient.copy())
            parameter.grad = grad.to_sparse(1) if sparse else grad
            values[name] = definition.step(name, values[name], gradient, options)
        optimizer.step(lambda: torch.zeros(()))
        for name, parameter in parameters.items():
            off = np.abs(values[name] - parameter.detach().numpy()).max() / np.abs(values[name]).max()
            greatest = max(greatest, float(off))
    return greatest


def _plain(option: object) -> object:
    """An option of torch's without tensors."""
    if isinstance(option, tuple):
        return tuple(map(_plain, option))
    return option.item() if hasattr(option, "item") else option


@pytest.mark.slow
def test_every_optimizer_of_torchs_database_has_its_definition_with_all_options() -> None:
    pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")
    database = importlib.import_module("torch.testing._internal.common_optimizers").optim_db
    shapes = {"matrix": (3, 4), "vector": (5,), "cube": (2, 3, 4), "number": ()}
    own: dict[str, dict[str, Any]] = {
        "LBFGS": {"shapes": {"vector": (5,)}},
        "Muon": {"shapes": {"wide": (3, 8), "tall": (6, 4)}},
        "SparseAdam": {"shapes": {"matrix": (6, 4)}, "gradients": _of_few_rows, "sparse": True},
    }
    once = {"LBFGS": {"max_iter": 1}}
    far, compared = [], 0
    for info in database:
        name = info.optim_cls.__name__
        for inputs in info.optim_inputs_func(device="cpu"):
            if "line_search_fn" in inputs.kwargs:
                continue
            off = _updated(
                info.optim_cls, inputs.kwargs | once.get(name, {}), **{"shapes": shapes, **own.get(name, {})}
            )
            compared += 1
            far += [(name, inputs.kwargs, off)] if off > COARSER.get(name, RELATIVE) else []
    assert {info.optim_cls.__name__.lower() for info in database} == set(optimizers.names())
    assert compared > MANY
    assert far == []


@pytest.fixture
def exact_twin() -> Case:
    """A linear layer of whole numbers between powers of two, whose sums float64 holds."""
    linear = Model(
        layers=(Linear(inputs=3, outputs=2), Activation(function="relu"), Linear(inputs=2, outputs=2))
    )
    case = twin(a_sharded_case(model=linear, rows=4, training=Training(steps=1)))
    return msgspec.structs.replace(case, data=Data(batch=4, regime="exact"))


def test_an_exact_twin_has_no_tolerance_and_its_case_in_bfloat16_has_one(exact_twin: Case) -> None:
    assert inexact(exact_twin) is None
    assert inexact(msgspec.structs.replace(exact_twin, dtype="bfloat16")) is not None


@pytest.mark.long
def test_the_passes_of_an_exact_twin_are_those_of_fractions(exact_twin: Case) -> None:
    pytest.importorskip("jax", reason="needs jax: pip install 'difftest[xla]'")
    weights, batch = numbers.weights(exact_twin), numbers.batch(exact_twin, 0)
    (computed,) = Passes(exact_twin).of_step(weights, 0)
    exact = {name: _fractions(value) for name, value in weights.items()}
    inner = _fractions(batch.inputs) @ exact["0.weight"].T + exact["0.bias"]
    active = inner * (inner > 0)
    output = active @ exact["2.weight"].T + exact["2.bias"]
    wrong = output - _fractions(batch.targets)
    back = 2 * wrong / Fraction(batch.count)
    entering = (back @ exact["2.weight"]) * (inner > 0)
    gradients = {
        "2.weight": back.T @ active,
        "2.bias": back.sum(0),
        "0.weight": entering.T @ _fractions(batch.inputs),
        "0.bias": entering.sum(0),
    }
    assert (_fractions(computed.output) == output).all()
    assert Fraction(computed.loss) == (wrong**2).sum() / Fraction(batch.count)
    assert computed.gradients is not None
    exactly = {name: _fractions(computed.gradients[name]) for name in gradients}
    assert [name for name, value in gradients.items() if (exactly[name] != value).any()] == []


def _fractions(values: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """The same numbers as Python's fractions."""
    exact: npt.NDArray[np.object_] = np.vectorize(lambda value: Fraction(float(value)), otypes=[object])(
        values
    )
    return exact


def test_the_greatest_score_of_a_softmax_has_no_derivative() -> None:
    jax = pytest.importorskip("jax")
    context = Context(numpy=jax.numpy, erf=None, weights={}, extras={}, path="")
    for seed in range(8):
        scores, values = jax.numpy.asarray(np.random.default_rng(seed).normal(size=(2, 64)))
        greatest = scores.max()

        def shares(scores: Any, greatest: Any = greatest) -> Any:  # noqa: ANN401
            powers = jax.numpy.exp(scores - greatest)
            return powers / powers.sum(-1, keepdims=True)

        gradients = [
            jax.grad(lambda scores, of=of, values=values: of(scores) @ values)(scores)
            for of in (shares, lambda scores: softmax(scores, context))
        ]
        assert np.array_equal(*gradients), seed


@pytest.mark.parametrize(
    ("x", "other", "quotient"),
    [
        (np.inf, 1.0, np.nan),
        (-np.inf, 2.5, np.nan),
        (np.inf, 0.0, np.inf),
        (1.0, -np.inf, -1.0),
        (-7.0, 2.0, -4.0),
    ],
)
def test_floor_division_of_infinities_is_pythons(x: float, other: float, quotient: float) -> None:
    with np.errstate(all="ignore"):
        divided = div(np, np.array([x]), np.array([other]), rounding_mode="floor")
        assert np.array_equal(divided, [quotient], equal_nan=True)
        assert np.array_equal(np.floor_divide(x, other), quotient, equal_nan=True)


@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -1.0, 700.0, -700.0, 1e300, -1e300])
def test_the_derivative_of_a_sigmoid_is_that_of_its_formula_everywhere(x: float) -> None:
    jax = pytest.importorskip("jax")
    value, derivative = jax.value_and_grad(lambda x: logistic(jax.numpy, x))(x)
    share = 1 / (1 + np.exp(-min(abs(x), 80.0)))
    assert value == pytest.approx(share if x >= 0 else 1 - share, abs=1e-7)
    assert derivative == pytest.approx(share * (1 - share), abs=1e-7)
