"""The numbers of a case: determined by its seed, representable, and the same on every machine."""

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from samples import DEEP, a_case

from difftest.cases.case import Case, Data, DType, Regime, Training
from difftest.cases.draws import Floats, round_to
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.linear import Linear
from difftest.cases.numbers import IGNORE_INDEX, batch, digest, weights

TOKENS = (
    Embedding(vocabulary=8, width=4),
    Attention(width=4, heads=2, kv_heads=2, segments=True),
    Linear(inputs=4, outputs=8),
)
REGIMES = ("normal", "exact", "large", "tiny", "ties", "zeros")
DTYPES: tuple[DType, ...] = ("float32", "bfloat16", "float16")


def packed(rows: int = 8, sequence: int = 16) -> Case:
    return a_case(TOKENS, sequence=sequence, training=Training(loss="cross_entropy"), fed=Data(batch=rows))


def all_bfloat16() -> Floats:
    """Every bfloat16 from 0 to the largest, in order."""
    return (np.arange(0x7F80, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("regime", REGIMES)
def test_weights_and_batches_are_representable_in_the_dtype(regime: Regime, dtype: DType) -> None:
    case = a_case(DEEP, fed=Data(batch=4, regime=regime), dtype=dtype)
    fed = batch(case, 0)
    for values in (*weights(case).values(), fed.inputs, fed.targets):
        floats = np.asarray(values, dtype=np.float64)
        np.testing.assert_array_equal(round_to(dtype, floats), floats)


@given(arrays.arrays(np.float64, 8, elements=st.floats()), st.sampled_from(DTYPES))
def test_rounding_twice_is_rounding_once(values: Floats, dtype: DType) -> None:
    once = round_to(dtype, values)
    np.testing.assert_array_equal(round_to(dtype, once), once)


def test_every_bfloat16_rounds_to_itself() -> None:
    np.testing.assert_array_equal(round_to("bfloat16", all_bfloat16()), all_bfloat16())


def test_bfloat16_rounds_to_the_nearest_and_ties_to_even() -> None:
    grid = all_bfloat16()
    low, high, even = grid[:-1], grid[1:], np.arange(len(grid) - 1) % 2 == 0
    middle = (low + high) / 2
    np.testing.assert_array_equal(round_to("bfloat16", middle), np.where(even, low, high))
    np.testing.assert_array_equal(round_to("bfloat16", -middle), -np.where(even, low, high))
    normal = slice(0x80, None)  # below, the neighbours of the middle are no float32
    after, before = (
        np.nextafter(middle.astype(np.float32), np.float32(to)).astype(np.float64)[normal]
        for to in (np.inf, 0)
    )
    np.testing.assert_array_equal(round_to("bfloat16", before), low[normal])
    np.testing.assert_array_equal(round_to("bfloat16", after), high[normal])


@pytest.mark.parametrize(
    ("dtype", "largest"), [("float32", 3.4028235e38), ("bfloat16", 3.3895314e38), ("float16", 65504.0)]
)
def test_beyond_the_largest_is_infinity_and_nan_stays(dtype: DType, largest: float) -> None:
    rounded = round_to(
        dtype, np.array([largest, largest * 1.01, -largest * 1.01, 1e300, np.inf, np.nan, -np.nan])
    )
    np.testing.assert_allclose(rounded[0], largest, rtol=1e-6)
    np.testing.assert_array_equal(rounded[1:], [np.inf, -np.inf, np.inf, np.inf, np.nan, np.nan])


@given(st.integers(0, 2**63 - 1), st.integers(0, 50))
def test_numbers_depend_on_the_seed_only(seed: int, step: int) -> None:
    one, other = (
        a_case(seed=seed),
        a_case(seed=seed, mesh=(("dp", 4),), path="elsewhere", training=Training(optimizer="adam", steps=3)),
    )
    for name, values in weights(one).items():
        np.testing.assert_array_equal(values, weights(other)[name])
    np.testing.assert_array_equal(batch(one, step).inputs, batch(other, step).inputs)
    np.testing.assert_array_equal(batch(one, step).targets, batch(other, step).targets)


@given(st.integers(0, 2**62))
def test_different_seeds_draw_different_numbers(seed: int) -> None:
    assert digest(a_case(seed=seed)) != digest(a_case(seed=seed + 1))


def test_batches_differ_from_step_to_step_and_weights_from_layer_to_layer() -> None:
    case = a_case((Linear(inputs=4, outputs=4), Linear(inputs=4, outputs=4)))
    assert not np.array_equal(batch(case, 0).inputs, batch(case, 1).inputs)
    assert not np.array_equal(weights(case)["0.weight"], weights(case)["1.weight"])


@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
@pytest.mark.parametrize("tokens", [False, True])
def test_a_learnable_task_has_the_same_batch_in_every_step(
    loss: Literal["mse", "cross_entropy"], *, tokens: bool
) -> None:
    fed = Data(batch=8, learnable=True)
    case = a_case(
        TOKENS if tokens else DEEP, sequence=4 if tokens else 0, training=Training(loss=loss), fed=fed
    )
    first, later = batch(case, 0), batch(case, 7)
    np.testing.assert_array_equal(first.inputs, later.inputs)
    np.testing.assert_array_equal(first.targets, later.targets)


def test_a_learnable_task_can_be_solved_by_a_linear_model() -> None:
    case = a_case(fed=Data(batch=32, learnable=True))
    fed = batch(case, 0)
    error = np.linalg.lstsq(fed.inputs, fed.targets, rcond=None)[1]
    assert (error < 1e-8).all()


@pytest.mark.parametrize("share", [0.0, 0.25, 0.9])
def test_the_ignored_share_of_targets_is_marked_and_not_counted(share: float) -> None:
    case = a_case(
        (Linear(inputs=4, outputs=5),),
        sequence=32,
        training=Training(loss="cross_entropy"),
        fed=Data(batch=32, ignored=share),
    )
    fed = batch(case, 0)
    ignored = fed.targets == IGNORE_INDEX
    assert abs(ignored.mean() - share) < 0.06
    assert fed.count == (~ignored).sum()
    assert set(np.unique(fed.targets[~ignored])) == set(range(5))


def test_a_batch_with_only_ignored_targets_has_count_one() -> None:
    training, fed = Training(loss="cross_entropy"), Data(batch=1, ignored=0.9)
    counts = {seed: batch(a_case(training=training, fed=fed, seed=seed), 0).count for seed in range(20)}
    assert set(counts.values()) == {1}


def test_segments_never_decrease_along_a_row_and_differ_between_rows() -> None:
    segments = batch(packed(), 0).extras["segments"]
    assert (np.diff(segments, axis=1) >= 0).all()
    assert len({row.tobytes() for row in segments}) > 1
    assert not batch(a_case(), 0).extras


def test_parts_of_a_batch_keep_the_count_of_the_whole() -> None:
    whole = batch(packed(), 0)
    part = whole.rows(slice(2, 4))
    assert part.count == whole.count
    for mine, all_rows in (
        (part.inputs, whole.inputs),
        (part.targets, whole.targets),
        (part.extras["segments"], whole.extras["segments"]),
    ):
        np.testing.assert_array_equal(mine, all_rows[2:4])


def test_the_zeros_regime_has_zeros_and_the_ties_regime_has_three_values() -> None:
    zeros, ties = (batch(a_case(fed=Data(batch=64, regime=regime)), 0).inputs for regime in ("zeros", "ties"))
    assert 0.3 < (zeros == 0).mean() < 0.7
    assert set(np.unique(ties)) == {-1.0, 0.0, 1.0}


def test_weights_preserve_the_scale_of_activations() -> None:
    case = a_case((Linear(inputs=256, outputs=256), Activation(function="relu")))
    assert np.std(weights(case)["0.weight"]) * 16 == pytest.approx(1.0, rel=0.02)


def test_numbers_are_the_same_on_every_machine() -> None:
    plain, learnt = a_case(DEEP, seed=11), a_case(DEEP, seed=11, fed=Data(batch=4, learnable=True))
    assert (digest(plain), digest(learnt), digest(packed())) == (
        "cc527b4ba8a8",
        "0607a4a03b66",
        "7630c06c8a6c",
    )


def test_the_sharp_regime_has_scores_whose_exponential_overflows_float32() -> None:
    layers = (Linear(inputs=8, outputs=8), Attention(width=8, heads=1, kv_heads=1))
    case = a_case(layers, sequence=16, fed=Data(batch=4, regime="sharp"))
    named, rows = weights(case), batch(case, 0).inputs
    inner = rows @ named["0.weight"].T
    scores = (inner @ named["1.q.weight"].T) @ (inner @ named["1.k.weight"].T).transpose(0, 2, 1) / np.sqrt(8)
    assert scores.max() > 88.0
