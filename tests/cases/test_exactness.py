"""Exact cases: none that is declared exact can round, and every reason against exactness is reported."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from samples import DEEP, EXACT, a_case, train

from difftest.cases.case import Case, Data, Training
from difftest.cases.exactness import inexact
from difftest.cases.layer import Layer
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layout import Shard
from difftest.cases.ranges import Range

RELU = Activation(function="relu")
SUMMED = Collective(operation="all_reduce", width=4, mesh=(2,), factor=0.5)


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Layer, ...]:
    widths = [*draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)), draw(st.sampled_from((1, 2, 4)))]
    layers: list[Layer] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers.append(Linear(inputs=inputs, outputs=outputs, bias=draw(st.booleans())))
        if draw(st.booleans()):
            layers.append(RELU)
    return tuple(layers)


@st.composite
def exact_cases(draw: st.DrawFn) -> Case:
    """Cases that are declared exact."""
    training = Training(steps=draw(st.integers(1, 2)), learning_rate=draw(st.sampled_from((0.125, 0.5, 1.0))))
    fed = Data(batch=draw(st.sampled_from((1, 2, 4, 8))), regime="exact")
    dtype = draw(st.sampled_from(("float32", "float32", "float16", "bfloat16")))
    case = a_case(draw(stacks()), training=training, fed=fed, dtype=dtype, seed=draw(st.integers(0, 999)))
    assume(inexact(case) is None)
    return case


@pytest.mark.long
@given(exact_cases(), st.integers(0, 2**32))
def test_an_admitted_case_gives_the_same_bits_in_any_order_of_addition(case: Case, seed: int) -> None:
    shuffled = np.random.default_rng(seed)
    for truth, rounded in zip(train(case), train(case, case.dtype, shuffled), strict=True):
        for key, values in truth.items():
            if key[1] != "loss":  # summed in float32 whatever the dtype
                np.testing.assert_array_equal(rounded[key], values, err_msg=str(key))


@pytest.mark.long
@given(exact_cases(), st.integers(0, 2**32))
def test_the_loss_of_an_exact_case_is_exact_in_float32(case: Case, seed: int) -> None:
    wide = train(case, "float32", np.random.default_rng(seed))
    for truth, rounded in zip(train(case), wide, strict=True):
        for key, values in truth.items():
            np.testing.assert_array_equal(rounded[key], values, err_msg=str(key))


def test_the_comparison_would_detect_rounding() -> None:
    case = a_case(DEEP, fed=Data(batch=4, regime="normal"))
    rounded = train(case, "float32", np.random.default_rng(0))[0]
    assert any(not np.array_equal(rounded[key], values) for key, values in train(case)[0].items())


TRAINED: dict[str, Any] = {"fed": EXACT}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"fed": Data(batch=4)}, "inputs are not small integers"),
        (
            {"layers": (Embedding(vocabulary=4, width=4), Linear(inputs=4, outputs=2)), "sequence": 2},
            "inputs are not small integers",
        ),
        (
            {"layers": (Linear(inputs=4, outputs=2), LayerNorm(width=2))},
            "a layer other than Linear and relu rounds",
        ),
        (
            {"layers": (Linear(inputs=4, outputs=2), Activation(function="gelu"))},
            "a layer other than Linear and relu rounds",
        ),
        ({"fed": Data(batch=4, regime="exact", learnable=True)}, "targets of a teacher round"),
        ({"training": Training(loss="cross_entropy")}, "only the squared error is exact"),
        ({"training": Training(optimizer="adam")}, "only plain SGD is exact"),
        ({"training": Training(clip_norm=1.0)}, "the norm for clipping rounds"),
        ({"training": Training(learning_rate=0.1)}, "the learning rate is no power of two"),
        ({"training": Training(learning_rate=0.0)}, "the learning rate is no power of two"),
        ({"fed": Data(batch=3, regime="exact")}, "the mean is over no power of two"),
        ({"mesh": (("dp", 3),), "batch": (Shard(0),)}, "the gradients are averaged over no power of two"),
        (
            {"dtype": "bfloat16", "layers": (Linear(inputs=64, outputs=2),)},
            "step 0: gradient of 0.weight needs 11 bits of significand; bfloat16 has 8",
        ),
        (
            {"dtype": "float16", "layers": (Linear(inputs=2048, outputs=1),)},
            "step 0: output of layer 0 needs 13 bits of significand",
        ),
        ({"training": Training(steps=3)}, "step 2: loss needs"),
        ({"layers": (SUMMED, Linear(inputs=4, outputs=2))}, None),
        ({"layers": (Redistribute(width=4, dims=(0,)), Linear(inputs=4, outputs=2))}, None),
        (
            {
                "layers": (
                    Collective(operation="permute", width=4, mesh=(2,), factor=1.5),
                    Linear(inputs=4, outputs=2),
                )
            },
            "the factor of a collective is no power of two",
        ),
    ],
)
def test_every_reason_is_given(changes: dict[str, Any], reason: str | None) -> None:
    actual = inexact(a_case(**{**TRAINED, **changes}))
    assert actual is None if reason is None else actual is not None and actual.startswith(reason), actual


def test_a_range_counts_the_bits_that_its_values_need() -> None:
    small = Range(3.0, 1.0)
    assert small.bits == 2
    assert (small * small).bits == pytest.approx(np.log2(10))
    assert small.summed(5) == Range(15.0, 1.0)
    assert (small + Range(1.0, 0.25)) == Range(4.0, 0.25)
    assert small.scaled(0.5).bits == small.bits


@pytest.mark.parametrize(
    ("operation", "reduction", "bound"),
    [("all_reduce", "sum", 2), ("all_reduce", "max", 1), ("permute", "sum", 1)],
)
def test_only_a_sum_over_ranks_widens_the_range(operation: str, reduction: str, bound: int) -> None:
    """Integers up to 2, over 1024 ranks, in the eleven bits of float16: only the sum does not fit."""
    fields: dict[str, Any] = {"operation": operation, "reduction": reduction}
    layer = Collective(width=1, mesh=(1024,), **fields)
    case = a_case(
        (layer, Linear(inputs=1, outputs=1, bias=False)), mesh=(("dp", 1),), fed=EXACT, dtype="float16"
    )
    reason = inexact(case)
    assert (reason is None) == (bound == 1), reason
