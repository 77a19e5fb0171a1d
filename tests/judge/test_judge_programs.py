"""Verdicts on programs: non-finite oracles, integers, facts, rejections, undefined results, and identity."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from program_traces import GRADIENT, OPERAND, RESULT, Values, compared, first, oracle, trace
from sample_programs import a_program, an_operator
from samples import a_failure

from difftest.cases import numbers
from difftest.cases.case import Data, Regime
from difftest.cases.layers.operator import Operand, Reference
from difftest.cases.layout import Shard
from difftest.judge.events import Fact
from difftest.judge.outcome import Symptom, Trace
from difftest.judge.stage import Stage

CASE = a_program(sharded={"0.input": (Shard(0),)})
VALUES = np.arange(1.0, 13.0).reshape(4, 3).astype(np.float32)
NAN, INF = np.nan, np.inf


def at(value: float, *, of: np.ndarray = VALUES, index: tuple[int, ...] = (2, 1)) -> np.ndarray:
    """`of` with one other element."""
    changed = of.copy()
    changed[index] = value
    return changed


def only(value: np.ndarray) -> Values:
    return {RESULT: value}


# Values that are not finite


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_equal_positions_of_nan_and_infinities_agree(value: float) -> None:
    values = only(at(value))
    assert compared(CASE, oracle(CASE, values), trace(CASE, values)).verdict == "agree"


KINDS = {"numbers": 5.0, "NaN": NAN, "infinity": INF, "minus infinity": -INF}


@pytest.mark.parametrize("got", KINDS)
@pytest.mark.parametrize("want", KINDS)
def test_another_kind_of_value_is_a_divergence_that_names_both(want: str, got: str) -> None:
    expected, actual = oracle(CASE, only(at(KINDS[want]))), trace(CASE, only(at(KINDS[got])))
    if want == got:
        assert compared(CASE, expected, actual).verdict == "agree"
        return
    divergence = first(CASE, expected, actual)
    assert (divergence.check, divergence.symptom) == ("finite", Symptom.NONFINITE)
    assert divergence.nature == f"add, not {want}"
    assert divergence.detail.endswith(f"2 values are {got} where the oracle's are {want}, on ranks [0, 1]")


def test_lost_nans_have_one_fingerprint_whatever_is_there_instead() -> None:
    truth = only(np.full_like(VALUES, NAN))
    wrong = [
        at(5.0, of=truth[RESULT]),
        at(INF, of=truth[RESULT]),
        at(5.0, of=at(INF, index=(0, 0), of=truth[RESULT])),
    ]
    fingerprints = {first(CASE, oracle(CASE, truth), trace(CASE, only(one))).fingerprint for one in wrong}
    assert len(fingerprints) == 1


def test_a_wrong_number_beside_an_infinity_of_the_oracle_is_found() -> None:
    truth = at(INF)
    divergence = first(CASE, oracle(CASE, only(truth)), trace(CASE, only(at(4.5, of=truth, index=(0, 0)))))
    assert (divergence.check, divergence.nature) == ("loss", "add")
    assert "1 / 12 elements" in divergence.detail


@pytest.mark.parametrize("got", [NAN, 7.0, 1e30, INF])
@pytest.mark.parametrize(
    ("samples", "native"), [(({RESULT: at(INF)},), None), ((), {RESULT: at(NAN)}), ((), {RESULT: at(INF)})]
)
def test_an_element_that_the_oracles_own_runs_do_not_decide_is_left_out(
    got: float, samples: tuple[Values, ...], native: Values | None
) -> None:
    expected = oracle(CASE, only(VALUES), samples=samples, native=native)
    comparison = compared(CASE, expected, trace(CASE, only(at(got))))
    assert comparison.verdict == "agree"
    assert [m.undecided for m in comparison.measurements] == [1]
    wrong = at(0.5, of=at(got), index=(0, 0))
    assert compared(CASE, expected, trace(CASE, only(wrong))).verdict == "diverge"


def test_a_program_of_which_nothing_is_decided_is_inconclusive() -> None:
    nothing = {RESULT: np.full_like(VALUES, INF)}
    expected = oracle(CASE, only(VALUES), native=nothing, in_range=False)
    comparison = compared(CASE, expected, trace(CASE, only(VALUES)))
    assert (comparison.verdict, comparison.reason_kind) == ("inconclusive", "values out of range")
    expected = oracle(CASE, only(VALUES), samples=({RESULT: -VALUES}, {RESULT: 2 * VALUES}))
    comparison = compared(CASE, expected, trace(CASE, only(VALUES)))
    assert comparison.reason_kind == "rounding noise is as large as the values"


@pytest.mark.parametrize("in_range", [True, False])
def test_near_overflow_an_infinity_of_the_candidate_alone_is_undecided(*, in_range: bool) -> None:
    expected = oracle(CASE, only(VALUES), in_range=in_range)
    comparison = compared(CASE, expected, trace(CASE, only(at(INF))))
    assert comparison.verdict == ("diverge" if in_range else "agree")
    huge = at(3e38, index=(0, 0))
    assert compared(CASE, oracle(CASE, only(huge)), trace(CASE, only(at(INF, of=huge)))).verdict == "agree"


def test_a_run_far_beyond_simulated_rounding_leaves_its_own_elements_undecided() -> None:
    expected = oracle(CASE, only(VALUES), native={RESULT: at(9.0)})
    assert expected.events.native > 100.0
    assert compared(CASE, expected, trace(CASE, only(at(8.5)))).verdict == "agree"
    assert compared(CASE, expected, trace(CASE, only(at(8.5, index=(0, 0))))).verdict == "diverge"


@pytest.mark.parametrize(("near", "verdict"), [(5, "inconclusive"), (7, "diverge")])
def test_a_run_far_beyond_simulated_rounding_in_most_of_a_tensor_leaves_all_of_it_undecided(
    near: int, verdict: str
) -> None:
    """As distances in float32 of points far from zero, whose squares cancel: some come near by chance."""
    native = 1.5 * VALUES
    native.flat[:near] = VALUES.flat[:near]
    expected = oracle(CASE, only(VALUES), native={RESULT: native})
    assert compared(CASE, expected, trace(CASE, only(at(9.0, index=(0, 0))))).verdict == verdict


def test_a_number_without_dims_that_rounds_otherwise_than_simulated_is_undecided() -> None:
    expected = oracle(CASE, {RESULT: np.asarray(1.0)}, native={RESULT: np.asarray(1.5)})
    assert all(np.isinf(piece) for piece in expected.noise[0][RESULT].pieces.values())


def test_values_that_pass_through_a_coarser_dtype_are_as_coarse() -> None:
    half = {(Stage.FORWARD, "1.output"): VALUES.astype(np.float16)}
    coarse = {RESULT: VALUES * np.float32(1 + 2.0**-11), **half}
    case = a_program(an_operator("add"), an_operator("half", operands={}, arguments=(Reference("0.output"),)))
    dtypes = {"1.output": "float16"}
    expected = oracle(case, {RESULT: VALUES, **half}, native=coarse, dtypes=dtypes)
    assert [m.undecided for m in compared(case, expected, trace(case, coarse)).measurements] == [0, 0]
    single = oracle(CASE, only(VALUES), native={RESULT: coarse[RESULT]})
    assert [m.undecided for m in compared(CASE, single, trace(CASE, only(VALUES))).measurements] == [12]


@pytest.mark.parametrize(("regime", "verdict"), [("normal", "agree"), ("extreme", "diverge")])
def test_a_small_value_beside_a_great_one_has_its_own_noise_where_magnitudes_differ(
    regime: Regime, verdict: str
) -> None:
    case = a_program(data=Data(batch=1, regime=regime))
    truth = VALUES * np.where(VALUES > 6.0, np.float32(1e15), np.float32(1e-15))
    wrong = truth.copy()
    wrong[0, 0] = 0.0
    assert compared(case, oracle(case, only(truth)), trace(case, only(wrong))).verdict == verdict
    near = truth * (1 + 2e-7 * np.sign(VALUES - 6.5))
    assert compared(case, oracle(case, only(truth)), trace(case, only(near))).verdict == "agree"


# Doubts


@pytest.mark.parametrize("value", [0.0, 1.0, NAN, INF])
def test_a_constant_result_that_agrees_is_conclusive(value: float) -> None:
    constant = {RESULT: np.full_like(VALUES, value), GRADIENT: np.zeros_like(VALUES)}
    assert compared(CASE, oracle(CASE, constant), trace(CASE, constant)).verdict == "agree"


def test_results_without_elements_agree_and_a_run_without_results_is_inconclusive() -> None:
    empty = only(np.zeros((0, 3), np.float32))
    assert compared(CASE, oracle(CASE, empty), trace(CASE, empty)).verdict == "agree"
    operands = {OPERAND: VALUES}
    comparison = compared(CASE, oracle(CASE, operands), trace(CASE, operands))
    assert comparison.reason == "there is no result to compare"


@pytest.mark.parametrize(("dtype", "size", "wrong"), [("float32", -130, 1e-20), ("float64", -1060, 1e-300)])
def test_subnormal_values_may_be_flushed_and_nothing_else(dtype: str, size: int, wrong: float) -> None:
    subnormal = (VALUES.astype(np.float64) * 2.0**size).astype(dtype)
    expected = oracle(CASE, only(subnormal), dtypes={"0.output": dtype})
    for right in (subnormal, np.zeros_like(subnormal)):
        assert compared(CASE, expected, trace(CASE, only(right))).verdict == "agree"
    for other in (at(wrong, of=subnormal), at(NAN, of=subnormal)):
        assert compared(CASE, expected, trace(CASE, only(other))).verdict == "diverge"


def test_values_whose_squares_are_zero_have_a_floor() -> None:
    tiny = VALUES.astype(np.float64) * 1e-165
    expected = oracle(CASE, only(tiny), dtypes={"0.output": "float64"})
    assert compared(CASE, expected, trace(CASE, only(tiny * (1 + 1e-7)))).verdict == "agree"
    assert compared(CASE, expected, trace(CASE, only(tiny * (1 + 1e-5)))).verdict == "diverge"


# Integers and booleans

INTEGERS = np.arange(12, dtype=np.int64).reshape(4, 3)


def test_integers_are_compared_exactly_beyond_what_float64_holds() -> None:
    large = INTEGERS + 2**53
    expected = oracle(CASE, only(large))
    assert compared(CASE, expected, trace(CASE, only(large))).verdict == "agree"
    wrong = at(2**53 + 8, of=large)
    assert wrong[2, 1] == large[2, 1] + 1
    assert first(CASE, expected, trace(CASE, only(wrong))).check == "loss"


def test_an_integer_that_rounding_changes_is_undecided() -> None:
    expected = oracle(CASE, only(INTEGERS), samples=({RESULT: at(5, of=INTEGERS)}, {}))
    assert compared(CASE, expected, trace(CASE, only(at(6, of=INTEGERS)))).verdict == "agree"
    wrong = at(6, of=INTEGERS, index=(0, 0))
    assert compared(CASE, expected, trace(CASE, only(wrong))).verdict == "diverge"


# Dtypes and facts


def described(result: Fact) -> Trace:
    return trace(CASE, only(VALUES), {"0.output": result})


EXPECTED = oracle(CASE, only(VALUES), facts={"0.output": Fact("float32", requires_grad=True)})


def test_a_result_has_the_dtype_of_torchs_own_run() -> None:
    right = described(Fact("float32", requires_grad=True))
    assert compared(CASE, EXPECTED, right).verdict == "agree"
    wrong = trace(CASE, only(VALUES.astype(np.float64)), right.events.facts)
    divergence = first(CASE, EXPECTED, wrong)
    assert (divergence.check, divergence.nature) == ("shape", "add, dtype")
    older = dataclasses.replace(EXPECTED, events=oracle(CASE, only(VALUES)).events)
    assert compared(CASE, older, wrong).verdict == "agree"


@pytest.mark.parametrize(
    ("fact", "nature"),
    [
        (Fact("float32", requires_grad=False), "add, requires no gradient"),
        (Fact("float32", requires_grad=True, alike=False), "add, ranks part"),
    ],
)
def test_a_result_with_another_fact_diverges(fact: Fact, nature: str) -> None:
    divergence = first(CASE, EXPECTED, described(fact))
    assert (divergence.check, divergence.nature, divergence.operator) == ("result_facts", nature, "add")


def test_operands_and_gradients_have_the_dtypes_of_the_case() -> None:
    mixed = a_program(
        an_operator(operands={"input": Operand(shape=(4, 3)), "mask": Operand(shape=(2,), dtype="bool")}),
        dtype="bfloat16",
    )
    mask = np.array([0, 1], np.int8)
    values: Values = {RESULT: VALUES, OPERAND: VALUES, (Stage.UPDATE, "0.mask"): mask}
    dtypes = {"0.output": "bfloat16", "0.input": "bfloat16", "0.mask": "bool"}
    expected = oracle(mixed, values)
    assert compared(mixed, expected, trace(mixed, values, dtypes=dtypes)).verdict == "agree"
    wrong = first(mixed, expected, trace(mixed, values, dtypes={**dtypes, "0.mask": "int8"}))
    assert (wrong.check, wrong.detail) == ("shape", "step 0, update, 0.mask: has dtype int8, expected bool")


def test_a_gradient_that_torch_does_not_give_is_unexpected() -> None:
    divergence = first(CASE, oracle(CASE, only(VALUES)), trace(CASE, {RESULT: VALUES, GRADIENT: VALUES}))
    assert (divergence.check, divergence.nature) == ("shape", "add, unexpected")


# Rejections

REJECTED = a_program(an_operator("add", rejects=True))
RAISED = a_failure(stage=Stage.FORWARD, operator="add", message="size 3 must match size 4")


@pytest.mark.parametrize("symptom", [Symptom.EXCEPTION, Symptom.CAPABILITY])
@pytest.mark.parametrize("stage", [Stage.FORWARD, Stage.UPDATE])
def test_arguments_that_both_reject_agree(symptom: Symptom, stage: Stage) -> None:
    assert compared(REJECTED, RAISED, a_failure(symptom, stage=stage)).verdict == "agree"


def test_a_candidate_that_accepts_what_torch_rejects_diverges_whatever_the_numbers_in_the_message() -> None:
    divergence = first(REJECTED, RAISED, trace(REJECTED, only(VALUES)))
    assert (divergence.check, divergence.stage, divergence.operator) == ("rejection", Stage.FORWARD, "add")
    assert divergence.cause == "add accepts what torch rejects\nRuntimeError: size#must match size#"
    other = dataclasses.replace(RAISED, message="size 7 must match size 9")
    assert first(REJECTED, other, trace(REJECTED, only(VALUES))).fingerprint == divergence.fingerprint


@pytest.mark.parametrize("symptom", [Symptom.CRASH, Symptom.HANG])
def test_a_crash_at_arguments_to_reject_diverges(symptom: Symptom) -> None:
    for expected in (RAISED, oracle(REJECTED, only(VALUES))):
        divergence = first(REJECTED, expected, a_failure(symptom, stage=Stage.FORWARD))
        assert (divergence.check, divergence.symptom) == ("completion", symptom)


def test_an_exception_before_the_operator_runs_rejects_nothing() -> None:
    assert first(REJECTED, RAISED, a_failure(stage=Stage.PLACE)).check == "completion"


def test_an_oracle_that_accepts_what_it_should_reject_decides_nothing() -> None:
    comparison = compared(REJECTED, oracle(REJECTED, only(VALUES)), trace(REJECTED, only(VALUES)))
    assert (comparison.verdict, comparison.reason) == (
        "inconclusive",
        "the oracle accepts what torch is to reject",
    )
    assert compared(CASE, RAISED, trace(CASE, only(VALUES))).reason_kind == "the oracle failed"
    crashed = compared(REJECTED, a_failure(Symptom.CRASH), trace(REJECTED, only(VALUES)))
    assert crashed.reason_kind == "the oracle failed"


def test_accepted_arguments_are_undefined_where_torch_says_so() -> None:
    open_ = a_program(an_operator("take", rejects=True, undefined="indices out of range"))
    assert first(open_, RAISED, trace(open_, only(VALUES))).symptom is Symptom.UNDEFINED


# Undefined results

UNDEFINED = a_program(an_operator("argsort", undefined="the order of ties"))


@pytest.mark.parametrize("wrong", [at(7.5), at(NAN)])
def test_a_difference_of_what_torch_leaves_open_is_no_mismatch(wrong: np.ndarray) -> None:
    divergence = first(UNDEFINED, oracle(UNDEFINED, only(VALUES)), trace(UNDEFINED, only(wrong)))
    assert divergence.symptom is Symptom.UNDEFINED
    assert divergence.detail.endswith("torch leaves open: the order of ties")


def test_a_wrong_shape_of_an_undefined_result_is_a_mismatch_and_comes_first() -> None:
    values = {RESULT: VALUES, OPERAND: VALUES}
    wrong = {RESULT: at(7.5), OPERAND: VALUES[:3]}
    comparison = compared(UNDEFINED, oracle(UNDEFINED, values), trace(UNDEFINED, wrong))
    symptoms = [(d.check, d.symptom) for d in comparison.divergences]
    assert symptoms == [("shape", Symptom.MISMATCH), ("loss", Symptom.UNDEFINED)]


def test_a_shape_that_depends_on_values_is_left_open_as_the_values_are() -> None:
    found = a_program(an_operator("nonzero", undefined="whether a subnormal number counts as zero"))
    divergence = first(found, oracle(found, only(VALUES)), trace(found, only(VALUES[:0])))
    assert (divergence.check, divergence.symptom) == ("shape", Symptom.UNDEFINED)


# Signs of zeros


EITHER_SIGN = (
    *("maximum", "nn.functional.max", "__rmod__", "clamp_", "nn.functional.interpolate.bilinear"),
    *("aten._foreach_clamp_max", "lerp", "remainder", "sgn", "sign", "nn.functional.upsample_bilinear"),
    *("nn.functional.elu", "nn.CELU"),
)


def test_the_sign_of_a_zero_of_an_operator_that_may_give_either_is_not_compared() -> None:
    for name in EITHER_SIGN:
        either = a_program(an_operator(name), data=Data(batch=1, regime="signed_zeros"))
        expected, actual = oracle(either, only(at(0.0))), trace(either, only(at(-0.0)))
        assert compared(either, expected, actual).verdict == "agree"


def test_the_sign_of_a_loss_that_is_zero_is_not_compared() -> None:
    """A loss is a sum in any order."""
    signed = a_program(data=Data(batch=1, regime="signed_zeros"))
    loss = (Stage.FORWARD, "loss")
    expected = oracle(signed, {**only(VALUES), loss: np.array(0.0)})
    actual = trace(signed, {**only(VALUES), loss: np.array(-0.0)})
    assert compared(signed, expected, actual).verdict == "agree"


def test_the_sign_of_a_zero_that_interpolation_copies_is_compared() -> None:
    copied = a_program(
        an_operator("nn.functional.interpolate.nearest"), data=Data(batch=1, regime="signed_zeros")
    )
    expected, actual = oracle(copied, only(at(0.0))), trace(copied, only(at(-0.0)))
    assert first(copied, expected, actual).check == "zero_signs"


def test_the_sign_of_a_zero_counts_in_its_own_regime_alone() -> None:
    signed = a_program(data=Data(batch=1, regime="signed_zeros"))
    expected, actual = oracle(signed, only(at(0.0))), trace(signed, only(at(-0.0)))
    divergence = first(signed, expected, actual)
    assert (divergence.check, divergence.nature) == ("zero_signs", "add, signs of zeros")
    assert compared(signed, oracle(signed, only(at(-0.0))), actual).verdict == "agree"
    assert compared(CASE, oracle(CASE, only(at(0.0))), trace(CASE, only(at(-0.0)))).verdict == "agree"
    unsure = oracle(signed, only(at(0.0)), native={RESULT: at(-0.0)})
    assert compared(signed, unsure, actual).verdict == "agree"
    transformed = trace(signed, only(at(-0.0)), dtypes={"0.output": "complex64"})
    assert compared(signed, expected, transformed).verdict == "agree"


# Identity

CHAIN = a_program(
    an_operator("add"),
    an_operator("exp", operands={}, arguments=(Reference("0.output"),)),
    an_operator("mul", operands={"other": Operand(shape=(3,))}, arguments=(Reference("1.output"),)),
)
RESULTS = {(Stage.FORWARD, f"{index}.output"): VALUES for index in range(3)}
GRADIENTS = {GRADIENT: VALUES, (Stage.BACKWARD, "2.other"): VALUES[0]}
LOSS = {(Stage.FORWARD, "loss"): np.array(3.0)}


def test_the_first_wrong_result_of_a_chain_names_the_operator() -> None:
    wrong = {key: value + 1.0 for key, value in list(RESULTS.items())[1:]}
    actual = {**LOSS, **RESULTS, **wrong, (Stage.FORWARD, "loss"): np.array(5.0)}
    divergence = first(CHAIN, oracle(CHAIN, {**LOSS, **RESULTS}), trace(CHAIN, actual))
    assert (divergence.tensor, divergence.operator) == ("1.output", "exp")
    assert divergence.nature.startswith("exp")


def test_a_non_finite_value_that_follows_from_a_wrong_number_is_not_the_first() -> None:
    actual = {**RESULTS, RESULT: VALUES + 1.0, (Stage.FORWARD, "2.output"): at(NAN)}
    assert first(CHAIN, oracle(CHAIN, RESULTS), trace(CHAIN, actual)).tensor == "0.output"


def test_the_gradient_of_the_last_operator_is_the_first() -> None:
    values = {**RESULTS, **GRADIENTS}
    wrong = {**RESULTS, **{key: -value for key, value in GRADIENTS.items()}}
    divergence = first(CHAIN, oracle(CHAIN, values), trace(CHAIN, wrong))
    assert (divergence.operator, divergence.nature) == ("mul", "mul, negated")


def test_equal_damage_of_two_operators_has_two_fingerprints() -> None:
    names = {
        first(case, oracle(case, only(VALUES)), trace(case, only(-VALUES))).fingerprint
        for case in (CASE, a_program(an_operator("sub")), a_program(an_operator("sub"), seed=3))
    }
    assert len(names) == 2


def test_a_failure_of_an_unknown_operator_of_a_chain_is_that_of_one_alone() -> None:
    message = "aten::mul: mul_ is not made for torch.float32"
    alone = a_program(an_operator("mul"))
    named = a_failure(message=message, operator="mul", stage=Stage.BACKWARD)
    unknown = dataclasses.replace(named, operator="")
    one = first(alone, oracle(alone, only(VALUES)), named)
    assert first(CHAIN, oracle(CHAIN, RESULTS), unknown).fingerprint == one.fingerprint


INPLACE = a_program(an_operator("mul_", call="Tensor.mul_", form="inplace"))
INITIAL = numbers.weights(INPLACE)["0.input"].astype(np.float32)


def test_an_operand_that_is_not_changed_is_named() -> None:
    values = {RESULT: VALUES, OPERAND: 2 * INITIAL}
    wrong = first(INPLACE, oracle(INPLACE, values), trace(INPLACE, {RESULT: VALUES, OPERAND: INITIAL}))
    assert (wrong.check, wrong.nature) == ("parameters", "mul_, operand not changed")


def test_an_operand_that_is_changed_is_named() -> None:
    values = {RESULT: VALUES, OPERAND: INITIAL}
    wrong = first(INPLACE, oracle(INPLACE, values), trace(INPLACE, {RESULT: VALUES, OPERAND: -INITIAL}))
    assert wrong.nature == "mul_, operand changed"


def test_what_a_later_operator_writes_into_is_that_operators() -> None:
    written = a_program(
        an_operator("add"),
        an_operator("zero_", operands={}, arguments=(Reference("0.output"),), form="inplace"),
    )
    both = {RESULT: VALUES, (Stage.FORWARD, "1.output"): VALUES}
    wrong = {key: value + 1.0 for key, value in both.items()}
    assert first(written, oracle(written, both), trace(written, wrong)).operator == "zero_"


VIEWED = a_program(
    an_operator("mul"),
    an_operator("narrow", operands={}, arguments=(Reference("0.output"),)),
    an_operator("zero_", operands={}, arguments=(Reference("1.output"),), form="inplace"),
)


def test_a_result_that_is_not_changed_through_a_right_view_of_it_has_lost_an_alias() -> None:
    expected = oracle(VIEWED, RESULTS)
    actual = {**RESULTS, RESULT: VALUES + 1.0}
    divergence = first(VIEWED, expected, trace(VIEWED, actual))
    assert (divergence.operator, divergence.nature) == ("narrow", "narrow, lost alias")
    operands = {**RESULTS, OPERAND: VALUES}
    unchanged = first(VIEWED, oracle(VIEWED, operands), trace(VIEWED, {**RESULTS, OPERAND: VALUES + 1.0}))
    assert unchanged.nature == "narrow, lost alias"
    all_wrong = {key: value + 1.0 for key, value in RESULTS.items()}
    assert first(VIEWED, expected, trace(VIEWED, all_wrong)).operator == "mul"


# Properties

any_values = arrays.arrays(np.float64, (4, 3), elements=st.floats(width=32))


@given(any_values)
def test_equal_runs_agree_whatever_the_values(values: np.ndarray) -> None:
    tensors = {RESULT: values, GRADIENT: values.T.reshape(4, 3)}
    actual = {key: value.astype(np.float32) for key, value in tensors.items()}
    comparison = compared(CASE, oracle(CASE, tensors), trace(CASE, actual))
    assert comparison.divergences == ()


@pytest.mark.long
@given(any_values, st.integers(0, 11), st.permutations(range(12)))
def test_a_verdict_does_not_depend_on_the_order_of_elements(
    values: np.ndarray, changed: int, order: list[int]
) -> None:
    wrong = values.copy()
    wrong.flat[changed] = np.where(np.isfinite(wrong.flat[changed]), 3.0, 1.0)

    def verdict(places: list[int]) -> tuple[str, list[tuple[int, int, Any]]]:
        truth, value = (array.flat[places].reshape(4, 3) for array in (values, wrong))
        comparison = compared(CASE, oracle(CASE, only(truth)), trace(CASE, only(value.astype(np.float32))))
        counted = [(m.differing, m.undecided, pytest.approx(m.ratio)) for m in comparison.measurements]
        return comparison.verdict, counted

    assert verdict(list(range(12))) == verdict(order)


@pytest.mark.long
@given(
    arrays.arrays(np.float64, (4, 3), elements=st.floats(-1e3, 1e3) | st.sampled_from([NAN, INF, -INF])),
    st.integers(0, 11),
    st.floats(1.5, 1e6),
    st.sampled_from([-1.0, 1.0]),
)
def test_a_difference_beyond_the_floor_in_any_finite_element_is_found(
    values: np.ndarray, changed: int, factor: float, sign: float
) -> None:
    values.flat[changed] = 1.0 if not np.isfinite(values.flat[changed]) else values.flat[changed]
    expected = oracle(CASE, only(values))
    deviations = expected.noise[0][RESULT].pieces[0]
    floor = np.sqrt((8 * deviations.flat[changed] ** 2 + 4 * np.mean(deviations**2)) / 12)
    wrong = values.copy()
    wrong.flat[changed] += sign * factor * 10.0 * max(floor, 1e-30)
    actual = trace(CASE, only(wrong), dtypes={"0.output": "float32"})
    assert compared(CASE, expected, actual).verdict == "diverge"
