"""The values of operands in every regime."""

import math

import numpy as np
import pytest

from difftest.cases.case import Regime
from difftest.cases.draws import Floats, round_to
from difftest.cases.layers.operator import Operand
from difftest.cases.regimes import KINKS, in_regime

FREE = Operand(shape=(8, 16))
CHANGING: tuple[Regime, ...] = (
    "ties",
    "kinks",
    "zeros",
    "signed_zeros",
    "large",
    "tiny",
    "offset",
    "denormal",
    "extreme",
    "nonfinite",
)


def drawn(regime: Regime, operand: Operand = FREE, dtype: str = "float32") -> Floats:
    rng = np.random.default_rng(5)
    normal = rng.standard_normal(operand.shape)
    if operand.low is not None and operand.high is not None:
        normal = rng.uniform(operand.low, operand.high, operand.shape)
    elif operand.low is not None:
        normal = operand.low + np.abs(normal)
    elif operand.high is not None:
        normal = operand.high - np.abs(normal)
    return in_regime(regime, normal, operand, dtype, rng)


def test_the_normal_regime_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    normal = rng.standard_normal(FREE.shape)
    assert (in_regime("normal", normal, FREE, "float32", rng) == normal).all()


@pytest.mark.parametrize("regime", CHANGING)
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1.0, None), (None, 0.0), (-1.0, 1.0)])
def test_every_regime_keeps_the_bounds_of_an_operand(
    regime: Regime, low: float | None, high: float | None
) -> None:
    values = drawn(regime, Operand(shape=(8, 16), low=low, high=high))
    finite = values[np.isfinite(values)]
    assert low is None or finite.min() >= low
    assert high is None or finite.max() <= high
    assert len(finite) >= values.size - 2


@pytest.mark.parametrize("regime", CHANGING)
def test_an_operand_without_elements_stays_empty(regime: Regime) -> None:
    assert drawn(regime, Operand(shape=(0, 3))).shape == (0, 3)


def test_ties_are_many() -> None:
    assert len(np.unique(drawn("ties"))) == 3
    assert len(np.unique(drawn("ties", Operand(shape=(9,), low=2.0)))) <= 3


def test_kinks_and_bounds_are_reached() -> None:
    assert set(KINKS) <= set(drawn("kinks", Operand(shape=(40, 40))).ravel())
    assert {0.0, 1.0} <= set(drawn("kinks", Operand(shape=(8, 16), low=0.0, high=1.0)).ravel())


def test_single_values_are_not_finite() -> None:
    assert 1 <= (~np.isfinite(drawn("nonfinite"))).sum() <= 2
    assert np.isfinite(drawn("nonfinite", Operand(shape=(8, 16), low=0.0, high=1.0))).all()


def test_zeros_have_both_signs() -> None:
    zeros = drawn("signed_zeros")
    assert set(np.signbit(zeros[zeros == 0])) == {True, False}


def test_an_offset_is_large_compared_with_the_spread() -> None:
    values = drawn("offset")
    assert values.mean() > 1000 * values.std()


@pytest.mark.parametrize(("dtype", "exponent"), [("float32", -126), ("bfloat16", -126), ("float16", -14)])
def test_denormal_values_are_below_the_least_normal_number_and_not_zero(dtype: str, exponent: int) -> None:
    values = round_to(dtype, drawn("denormal", dtype=dtype))  # type: ignore[arg-type]
    assert (np.abs(values) < 2.0**exponent).all()
    assert (values != 0).mean() > 0.9


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_the_squares_of_extreme_values_are_finite(dtype: str) -> None:
    values = drawn("extreme", dtype=dtype)
    assert np.isfinite(round_to(dtype, values**2)).all()  # type: ignore[arg-type]
    assert math.log2(np.abs(values).max() / np.abs(values).min()) > 12
