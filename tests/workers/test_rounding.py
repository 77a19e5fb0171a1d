"""The table of how operators round: every operator has a class, and those of models the one they had."""

import pytest

from workers.training.rounding import CLASSES, classes

EXACT_BEFORE = """
    abs alias amax as_strided bitwise_and bitwise_not cat clone constant_pad_nd copy_ detach embedding
    empty empty_like eq expand fill_ full full_like gather ge gt index_select isfinite le logical_and
    logical_not lt masked_fill masked_fill_ max maximum min minimum ne neg new_empty new_zeros ones
    ones_like permute relu repeat_interleave reshape scalar_tensor select select_backward set_ sign
    slice slice_backward split squeeze stack t threshold_backward transpose tril triu unsqueeze view
    where zero_ zeros zeros_like _to_copy _unsafe_view unbind lift_fresh _local_scalar_dense
    """
SUMS_BEFORE = """
    mm addmm bmm baddbmm sum mean convolution convolution_backward native_layer_norm
    native_layer_norm_backward embedding_dense_backward linalg_vector_norm scatter_add scatter_add_ index_add
    cumsum var var_mean _fused_rms_norm _fused_rms_norm_backward
    """
APPROXIMATED_BEFORE = "exp log tanh tanh_backward erf sigmoid gelu gelu_backward silu silu_backward rsqrt pow"
BOTH_BEFORE = "_softmax _softmax_backward_data _log_softmax _log_softmax_backward_data"
UNLISTED_BEFORE = """
    add add_ addcdiv_ addcmul_ clamp div flip lerp_ mul mul_ reciprocal roll sqrt sub
    _foreach_norm _foreach_mul_
    """
"""What 120 generated cases dispatch beside the operators that were listed. It was rounded once."""

BEFORE = {
    "exact": EXACT_BEFORE,
    "sums": SUMS_BEFORE,
    "approximated": APPROXIMATED_BEFORE,
    "intermediate": BOTH_BEFORE,
    "once": UNLISTED_BEFORE,
    "wide": "logsumexp",
}
"""The lists of names that the table replaced, by the class that does what they did."""


@pytest.mark.parametrize("kind", BEFORE)
def test_operators_of_models_and_optimizers_round_as_before_the_table(kind: str) -> None:
    assert {name: classes().get(name) for name in BEFORE[kind].split()} == dict.fromkeys(
        BEFORE[kind].split(), kind
    )


def test_every_class_of_the_table_has_a_meaning_and_operators() -> None:
    assert {*classes().values()} == {*CLASSES}


def test_an_in_place_form_rounds_as_its_operator() -> None:
    pairs = {name: name.removesuffix("_") for name in classes() if name.endswith("_")}
    kept = {"add_"}  # rounded once, and so is `add`
    wrong = {
        name
        for name, base in pairs.items()
        if base in classes() and classes()[name] != classes()[base] and name not in kept
    }
    assert not wrong


@pytest.mark.slow
def test_the_table_is_what_torchs_schemas_and_the_classified_groups_give() -> None:
    from workers.training.rounding import TABLE, table  # noqa: PLC0415  needs torch

    assert table.text() == TABLE.read_text()
