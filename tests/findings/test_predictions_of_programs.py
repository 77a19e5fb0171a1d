"""Models of known faults of single operators: each gives the numbers of its fault, and no others."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from program_traces import GRADIENT, RESULT, Key, oracle, trace
from sample_programs import a_call, a_program, an_operator
from samples import Floats

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.layers.operator import Items, Operand, Operator, Reference
from difftest.cases.layout import Shard
from difftest.judge.measured import measure_run
from difftest.judge.predictions import load, names
from difftest.judge.stage import Stage
from generators.cases import case_at

INPUT = Reference("input")


def predicted(name: str, case: Case, right: Floats, wrong: Floats, key: Key = RESULT) -> bool:
    """Whether a prediction gives a wrong tensor of a program."""
    expected, actual = oracle(case, {key: right}), trace(case, {key: wrong.astype(np.float32)})
    return load(name).predicts(measure_run(case, "backend", "side", expected, actual), (0, *key))


def require_predicted(name: str, case: Case, right: Floats, wrong: Floats, key: Key = RESULT) -> None:
    """The prediction gives the wrong tensor, and none that is wrong in another way."""
    assert predicted(name, case, right, wrong, key)
    others = {
        "times 1.7": 1.7 * wrong,
        "negated": -right,
        "one element": right.copy(),
        "far off": right + 1e3,
    }
    others["one element"].flat[-1] += 7.0
    assert [words for words, other in others.items() if predicted(name, case, right, other, key)] == []


def of(call: str, *values: float, shape: tuple[int, ...] | None = None, **options: Any) -> Case:  # noqa: ANN401
    """A program of one function of numbers."""
    given = Operand(shape=shape or (len(values),), values=values)
    return a_program(a_call(f"torch.nn.functional.{call}", {"input": given}, INPUT, options=options))


def test_the_logarithm_of_a_number_near_one_is_off_by_its_rounding() -> None:
    given = np.array([9.0, 12.0, 14.0, 0.5])
    wrong = np.log(np.float32(1.0) + np.exp(-given.astype(np.float32)))
    right = np.log1p(np.exp(-given))
    require_predicted("rounded_near_one", of("logsigmoid", *given), -right, -wrong.astype(np.float64))
    assert not predicted("rounded_near_one", of("logsigmoid", *given), -right, -right - 1e-5)


def test_a_sum_of_many_logarithms_is_off_by_all_their_roundings() -> None:
    case = of("binary_cross_entropy", *np.full(64, 1e-9))
    right = np.array(64e-9)
    assert predicted("rounded_near_one", case, right, right + 64 * 2.0**-24)
    assert not predicted("rounded_near_one", case, right, right + 1e-3)


NORMS: Mapping[str, tuple[tuple[int, ...], Callable[[Floats], Floats], tuple[object, ...]]] = {
    "layer_norm": ((3, 8), lambda x: x, (Items((8,), kind="tuple"),)),
    "batch_norm": ((8, 3), lambda x: x.T, ()),
    "instance_norm": ((2, 3, 8), lambda x: x.reshape(6, 8), ()),
    "group_norm": ((2, 4, 4), lambda x: x.reshape(4, 8), (2,)),
}
"""The shape of a norm's input, its numbers with those in a row that it takes together, and its arguments."""


def normalized(rows: Floats, variance: Floats) -> Floats:
    deviation = np.sqrt(np.maximum(variance, 0.0)[:, None] + 1e-5)
    return np.asarray((rows - rows.mean(1, keepdims=True)) / deviation)


@pytest.mark.parametrize("name", NORMS)
def test_a_variance_that_cancels_is_off_by_the_roundoff_of_the_squares(name: str) -> None:
    shape, in_rows, arguments = NORMS[name]
    given = np.random.default_rng(2).normal(400.0, 1.0, shape).astype(np.float32).astype(np.float64)
    operand = {"input": Operand(shape=shape, values=tuple(given.flat))}
    case = a_program(a_call(f"torch.nn.functional.{name}", operand, INPUT, *arguments))  # type: ignore[arg-type]
    rows = in_rows(given)

    def back(value: Floats) -> Floats:
        return value.T if name == "batch_norm" else value.reshape(shape)

    right, off = rows.var(1), 8 * 2.0**-24 * (rows**2).mean(1)
    truth = back(normalized(rows, right))
    for sign in (1.0, -1.0):
        assert predicted("variance_cancelled", case, truth, back(normalized(rows, right + sign * off)))
    assert not predicted("variance_cancelled", case, truth, back(normalized(rows, 4.0 * right)))
    assert not predicted("variance_cancelled", case, truth, truth + 1.0)
    assert not predicted("variance_cancelled", case, truth, -truth)


def test_no_variance_of_small_numbers_cancels() -> None:
    shape, in_rows, arguments = NORMS["layer_norm"]
    given = np.random.default_rng(2).normal(0.0, 1.0, shape)
    operand = {"input": Operand(shape=shape, values=tuple(given.flat))}
    case = a_program(a_call("torch.nn.functional.layer_norm", operand, INPUT, *arguments))  # type: ignore[arg-type]
    rows = in_rows(given)
    wrong = normalized(rows, rows.var(1) * 1.001)
    assert not predicted("variance_cancelled", case, normalized(rows, rows.var(1)), wrong)


SELU_SCALE = 1.0507009873554805
SELU = 1.6732632423543772 * SELU_SCALE


@pytest.mark.parametrize("name", ["elu", "celu", "selu"])
def test_the_gradient_of_elu_takes_the_input_for_the_result(name: str) -> None:
    given, came_back = np.array([-2.0, -0.5, 1.0, 3.0]), np.array([0.3, -1.0, 2.0, 0.7])
    options: dict[str, Any] = {"alpha": 0.5} if name != "selu" else {}
    case = of(name, *given, **options)
    below = {
        "elu": (0.5 * np.exp(given), given + 0.5),
        "celu": (np.exp(given / 0.5), (given + 0.5) / 0.5),
        "selu": (SELU * np.exp(given), given + SELU),
    }[name]
    above = SELU_SCALE if name == "selu" else 1.0
    right, wrong = (came_back * np.where(given > 0.0, above, one) for one in below)
    require_predicted("input_for_result", case, right, wrong, GRADIENT)
    if options:  # another alpha gives other numbers
        assert not predicted("input_for_result", of(name, *given, alpha=0.25), right, wrong, GRADIENT)


def test_the_gradient_of_hardtanh_passes_at_its_bounds() -> None:
    case = of("hardtanh", -2.0, -1.0, 0.5, 1.0, 1.0)
    right = np.array([0.0, 0.0, 3.0, 0.0, 0.0])
    assert predicted("passed_at_a_bound", case, right, np.array([0.0, 2.0, 3.0, 4.0, 5.0]), GRADIENT)
    clipped = of("relu6", -2.0, 0.0, 0.5, 6.0, 6.0)
    assert predicted("passed_at_a_bound", clipped, right, np.array([0.0, 2.0, 3.0, 4.0, 5.0]), GRADIENT)
    assert not predicted("passed_at_a_bound", case, right, np.array([1.0, 2.0, 3.0, 4.0, 5.0]), GRADIENT)
    assert not predicted("passed_at_a_bound", case, right, np.array([0.0, 2.0, 3.5, 4.0, 5.0]), GRADIENT)
    assert not predicted("passed_at_a_bound", case, right, right, GRADIENT)


def uneven(operator: Operator) -> Case:
    """Three rows on two ranks: two and one."""
    return a_program(operator, sharded={"0.input": (Shard(0),)})


def test_the_gradient_of_max_pooling_is_right_in_the_last_shard_alone() -> None:
    call = a_call("torch.nn.functional.max_pool1d", {"input": Operand(shape=(1, 8))}, INPUT, 2, 1)
    case = a_program(call, sharded={"0.input": (Shard(1),)})
    right = np.array([[1.0, 0.0, 2.0, 0.0, 1.0, 2.0, 0.0, 1.0]])
    wrong = np.array([[0.0, 1.0, 0.0, 2.0, 1.0, 2.0, 0.0, 1.0]])
    assert predicted("right_in_last_shard", case, right, wrong, GRADIENT)
    assert not predicted("right_in_last_shard", case, right, wrong + 1.0, GRADIENT)
    assert not predicted("right_in_last_shard", a_program(call), right, wrong, GRADIENT)


def test_a_mean_of_losses_over_unequal_shards_is_off_by_a_factor_that_the_shards_allow() -> None:
    case = uneven(a_call("torch.nn.functional.mse_loss", {"input": Operand(shape=(3,))}, INPUT))
    losses = np.array([4.0, 1.0, 9.0])
    right, wrong = losses.mean(), (losses[:2].mean() + losses[2]) / 2
    require_predicted("mean_of_means", case, np.array(right), np.array(wrong))
    even = a_program(a_call("torch.nn.functional.mse_loss", {"input": Operand(shape=(4,))}, INPUT))
    assert not predicted("mean_of_means", even, np.array(right), np.array(wrong))


def test_a_mean_over_unequal_shards_lies_among_its_numbers() -> None:
    given = np.array([-4.0, 1.0, 9.0])
    case = uneven(an_operator("mean", operands={"input": Operand(shape=(3,), values=tuple(given))}))
    wrong = (given[:2].mean() + given[2]) / 2
    assert predicted("mean_of_means", case, np.array(given.mean()), np.array(wrong))
    for other in (9.5, -4.5, 1e6):
        assert not predicted("mean_of_means", case, np.array(given.mean()), np.array(other))


@pytest.mark.parametrize("function", ["nll_loss", "cross_entropy"])
def test_a_mean_loss_of_classes_is_the_mean_of_the_means_of_rows_that_count(function: str) -> None:
    scores, targets, weights = np.arange(12.0).reshape(4, 3) % 5, (0, 2, 1, 1), np.array([1.0, 2.0, 4.0])
    given = {
        "input": Operand(shape=(4, 3), values=tuple(scores.flat)),
        "target": Operand(shape=(4,), dtype="int64", gradient=False, values=tuple(map(float, targets))),
        "weight": Operand(shape=(3,), gradient=False, values=tuple(weights)),
    }
    named = INPUT, Reference("target"), Reference("weight")
    call = a_call(f"torch.nn.functional.{function}", given, *named, options={"ignore_index": 2})
    logs = scores
    if function == "cross_entropy":
        logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    shares = weights[list(targets)] * (np.array(targets) != 2)
    losses = -logs[range(4), targets] * shares
    right = losses.sum() / shares.sum()
    wrong = (losses[:2].sum() / shares[:2].sum() + losses[2:].sum() / shares[2:].sum()) / 2
    case = a_program(call, sharded={"0.input": (Shard(0),)})
    require_predicted("loss_of_classes_by_rank", case, np.array(right), np.array(wrong))
    assert not predicted("loss_of_classes_by_rank", case, np.array(right), np.array(wrong * 1.01))
    whole = a_program(call, sharded={"0.input": (Shard(1),)})
    assert not predicted("loss_of_classes_by_rank", whole, np.array(right), np.array(wrong))


def test_an_average_pool_divides_by_another_number() -> None:
    shape = (1, 4, 4)
    case = of("avg_pool2d", *np.arange(1.0, 17.0), shape=shape, kernel_size=2, divisor_override=3)
    right = np.array([[[14.0, 22.0], [46.0, 54.0]]]) / 3
    require_predicted("another_divisor", case, right, right * 3 / 4)
    counts = np.array([[[4, 2], [2, 1]]])
    assert predicted("another_divisor", case, right, right * 4 / counts), "of the kernel's four elements"
    assert predicted("another_divisor", case, right, right * 3 / 2), "the divisor of an earlier call"
    assert not predicted("another_divisor", case, right, right * 3 / (counts + 0.4))
    given, arguments = {"input": Operand(shape=shape)}, (INPUT, 2, 2, 0, False, False, 3)
    by_position = a_program(a_call("torch.nn.functional.avg_pool2d", given, *arguments))
    require_predicted("another_divisor", by_position, right, right * 3 / 4)
    plain = of("avg_pool2d", *np.arange(1.0, 17.0), shape=shape, kernel_size=2)
    assert not predicted("another_divisor", plain, right, right * 3 / 4)


def test_an_rms_norm_of_a_program_loses_its_epsilon() -> None:
    given = np.array([[0.1, -0.2, 0.05], [0.3, 0.1, 0.2]])
    options = {"eps": 0.5}
    operand = {"input": Operand(shape=(2, 3), values=tuple(given.flat))}
    call = a_call("torch.nn.functional.rms_norm", operand, INPUT, Items((3,), kind="tuple"), options=options)
    case = a_program(call)
    squares = (given**2).mean(1, keepdims=True)
    require_predicted("lost_epsilon", case, given / np.sqrt(squares + 0.5), given / np.sqrt(squares))


@pytest.mark.parametrize("path", ["modules", "operators"])
def test_no_prediction_fails_whatever_the_operator_and_its_arguments_are(path: str) -> None:
    """A prediction that raises would end a campaign."""
    for index in range(400):
        case = case_at(6, index, paths=(path,), max_world_size=2)
        if case.model.rejects or not (shapes := case.model.parameters()):
            continue
        name, shape = next(iter(shapes.items()))
        right = np.ones(shape)
        values = {(Stage.FORWARD, f"{name.partition('.')[0]}.output"): right, (Stage.BACKWARD, name): right}
        expected = oracle(case, values)
        for off in (2.0, -1e6):
            actual = trace(case, {key: off * one for key, one in values.items()})
            run = measure_run(case, "backend", "side", expected, actual)
            for key, one in itertools.product(run.measured, names()):
                assert load(one).predicts(run, key) in {True, False}, (case.id, one)


@pytest.mark.parametrize("function", ["layer_norm", "mse_loss", "elu", "hardtanh", "avg_pool2d", "rms_norm"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 3), (1, 1, 1, 1, 1)])
def test_no_prediction_fails_whatever_the_shape_is(function: str, shape: tuple[int, ...]) -> None:
    operand = {"input": Operand(shape=shape)}
    options = {"divisor_override": 3} if "pool" in function else {}
    case = a_program(a_call(f"torch.nn.functional.{function}", operand, INPUT, options=options))
    for key, one in itertools.product((RESULT, GRADIENT), names()):
        for off in (2.0, -1e6):
            assert predicted(one, case, np.ones(shape), np.full(shape, off), key) in {True, False}


def test_what_belongs_to_no_program_is_none_of_these() -> None:
    case = of("elu", 1.0, -1.0)
    assert set(numbers.weights(case)) == {"0.input"}
    for name in ("rounded_near_one", "variance_cancelled", "mean_of_means", "another_divisor"):
        assert not predicted(name, case, np.ones(2), np.zeros(2), GRADIENT)
    assert not predicted("input_for_result", case, np.ones(2), np.zeros(2))
