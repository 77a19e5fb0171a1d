"""Batches and optimizers: the limits that keep a comparison meaningful."""

import itertools
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from difftest.cases.layer import Layer
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Mesh, Shard, local_slices
from difftest.cases.model import Model
from generators import training
from generators.cases import case_at
from generators.models import learnable_models

parts = st.lists(st.integers(1, 4), min_size=0, max_size=2).map(tuple)


@given(st.integers(1, 40), parts)
def test_the_rule_for_rows_agrees_with_the_rows_of_the_ranks(rows: int, sizes: tuple[int, ...]) -> None:
    mesh = Mesh((*zip(("dp_replicate", "dp_shard"), sizes, strict=False),) or (("dp", 1),))
    held = [
        local_slices((rows,), (Shard(0),) * len(mesh.axes), mesh, rank)[0] for rank in range(mesh.world_size)
    ]
    assert training.every_rank_has_rows(rows, sizes) == all(part.stop > part.start for part in held)


@pytest.mark.parametrize(
    ("rows", "sizes", "expected"),
    [
        (7, (2,), True),
        (5, (3,), True),
        (4, (3,), False),
        (6, (2, 2), True),
        (5, (2, 2), True),
        (9, (2, 4), False),
    ],
)
def test_chunks_are_cut_as_torch_cuts_them(rows: int, sizes: tuple[int, ...], expected: bool) -> None:
    assert training.every_rank_has_rows(rows, sizes) is expected


@given(parts.flatmap(lambda sizes: st.tuples(st.just(sizes), training.batch_rows(parts=sizes))))
def test_drawn_rows_leave_no_rank_empty(drawn: tuple[tuple[int, ...], int]) -> None:
    sizes, rows = drawn
    assert training.every_rank_has_rows(rows, sizes)


@given(
    st.sampled_from(((), (2,), (4,), (2, 2), (8,))).flatmap(
        lambda sizes: training.batch_rows(parts=sizes, most=16, exact=True)
    )
)
def test_exact_batches_are_powers_of_two(rows: int) -> None:
    assert rows in (4, 8, 16)


@given(learnable_models())
def test_a_learnable_task_has_a_rate_for_every_optimizer_and_loss(model: Model) -> None:
    for optimizer, loss in itertools.product(get_args(training.Optimizer), get_args(training.Loss)):
        assert 2**-6 <= training.learning_rate(optimizer=optimizer, model=model, loss=loss) <= 1


def deep(count: int, *more: Layer) -> Model:
    return Model(layers=(*[Linear(inputs=4, outputs=4)] * count, *more), sequence=4)


def test_attention_gets_sharp_scores_unless_its_model_has_tokens() -> None:
    """Equal tokens round alike, which the rounding noise does not show."""
    attention = Attention(width=4, heads=2, kv_heads=1)

    def regimes(*layers: Layer) -> set[str]:
        model = Model(layers=layers, sequence=4)
        return {regime for _, regime in training.fitting_regimes(model=model, dtype="float32")}

    assert "sharp" in regimes(attention)
    assert regimes(Embedding(vocabulary=5, width=4), attention) == {"normal"}


def test_large_numbers_need_a_norm_or_few_layers_and_no_softmax() -> None:
    assert training.keeps_large_finite(deep(6))
    assert not training.keeps_large_finite(deep(7))
    assert training.keeps_large_finite(deep(7, RMSNorm(width=4)))
    assert not training.keeps_large_finite(deep(1, Attention(width=4, heads=2, kv_heads=1)))


@pytest.mark.long
def test_a_batch_norm_has_two_rows_in_every_part_of_a_batch() -> None:
    drawn = [case_at(7, index, paths=("blocks", "features")) for index in range(200, 280)]
    rows = [
        case.data.batch // case.training.accumulation
        for case in drawn
        if any("running_mean" in name for name in case.model.statistics())
    ]
    assert min(rows) == 2
