"""The loss of a user's model: the dtype that it has beside the other losses."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from own_models import own_case

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("dtype", "expected"), [("bfloat16", "float32"), ("float16", "float32"), ("float64", "float64")]
)
def test_the_loss_of_a_half_type_is_float32_as_every_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, expected: str
) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    from workers.own import loaded, made  # noqa: PLC0415  they import torch

    functions = SimpleNamespace(loss=lambda outputs, targets: (outputs - targets).square().mean())
    monkeypatch.setattr(loaded, "functions", lambda _layer: functions)
    outputs = torch.full((2, 3), 2.0, dtype=getattr(torch, dtype))
    loss = made.loss(own_case(tmp_path), outputs, torch.zeros_like(outputs), 8)
    assert loss.dtype == getattr(torch, expected)
    assert loss.item() == 4.0 * 2 / 8
