"""Dropout in a user's module: the same elements are dropped in every type, on every rank, in every run."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from difftest.ground.errors import UsageError
from workers.own import masks
from workers.own.precision import wide

pytestmark = pytest.mark.slow

ROWS, ALL = 6, slice(0, 6)


def dropped(dtype: torch.dtype, rows: slice = ALL, step: int = 0) -> tuple[Tensor, Tensor]:
    """What two calls of dropout leave of ones, on a rank that has these rows."""
    masks.install()
    run = masks.Masks(3, ROWS, "bfloat16", lambda mask: mask[rows])
    layer, ones = nn.Dropout(0.1), torch.ones(ROWS, 50, dtype=dtype)[rows]
    with run.of_step(step):
        return layer(ones), layer(ones)


def test_the_oracle_drops_what_a_half_type_drops_and_multiplies_by_the_same_number() -> None:
    half = dropped(torch.bfloat16)
    with wide():
        exact = dropped(torch.float64)
    assert all(torch.equal(*pair) for pair in zip(exact, (one.double() for one in half), strict=True))
    assert len(exact[0].unique()) == 2


def test_a_rank_drops_what_one_device_drops_in_its_rows() -> None:
    assert torch.equal(dropped(torch.float32, slice(2, 4))[0], dropped(torch.float32)[0][2:4])


def test_every_call_and_every_step_drops_other_elements() -> None:
    first, second = dropped(torch.float32)
    assert not torch.equal(first, second)
    assert not torch.equal(first, dropped(torch.float32, step=1)[0])


def test_attention_drops_weights_as_its_documentation_says() -> None:
    query = torch.ones(ROWS, 2, 3, 4)
    attended = functional.scaled_dot_product_attention(query, query, query, dropout_p=0.0, is_causal=True)
    run = masks.Masks(3, ROWS, "float32", lambda mask: mask)
    masks.install()
    with run.of_step(0):
        kept = functional.scaled_dot_product_attention(query, query, query, dropout_p=1e-9, is_causal=True)
        some = functional.scaled_dot_product_attention(query, query, query, dropout_p=0.5, is_causal=True)
    assert torch.allclose(kept, attended)
    assert not torch.allclose(some, attended)


def test_a_fault_of_the_frameworks_attention_stays_where_nothing_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A framework may put its own function in torch's place, and that is what has to be tested."""
    own = functional.scaled_dot_product_attention

    def off_by_one(query: Tensor, key: Tensor, value: Tensor, *_: object, **options: object) -> Tensor:
        assert options == {"is_causal": True}
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(1)
        return own(query, key, value, attn_mask=seen)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", off_by_one)
    monkeypatch.setattr(functional, "dropout", functional.dropout)  # put back after the test
    masks.install.cache_clear()
    masks.install()
    query = torch.randn(ROWS, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    with masks.Masks(3, ROWS, "float32", lambda mask: mask).of_step(0):
        attended = functional.scaled_dot_product_attention(query, query, query, is_causal=True)
    assert torch.equal(attended, off_by_one(query, query, query, is_causal=True))
    assert not torch.allclose(attended, own(query, query, query, is_causal=True))


def test_a_tensor_without_the_batchs_rows_first_is_refused() -> None:
    masks.install()
    run = masks.Masks(3, ROWS, "float32", lambda mask: mask)
    with run.of_step(0), pytest.raises(UsageError, match=r"dropout of a tensor \(2, 3\), whose first dim"):
        functional.dropout(torch.ones(2, 3), 0.5)


def test_outside_of_a_run_torch_drops_as_ever() -> None:
    masks.install()
    torch.manual_seed(0)
    first = functional.dropout(torch.ones(50), 0.5)
    assert not torch.equal(first, functional.dropout(torch.ones(50), 0.5))
