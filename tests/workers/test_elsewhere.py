"""Operators whose results are on another device, found in autograd's graph."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402  after the check for torch

from workers.training.elsewhere import operators_elsewhere  # noqa: E402

pytestmark = pytest.mark.slow

DEVICE = "meta"


def test_an_operator_with_a_result_on_the_host_is_named() -> None:
    weight = torch.ones(3, device=DEVICE, requires_grad=True)
    assert not operators_elsewhere(weight.sum() * 2.0, DEVICE)
    on_host = torch.ones(3, requires_grad=True).exp().sum()
    assert operators_elsewhere(on_host, DEVICE) == {
        "SumBackward0 on cpu": 1,
        "ExpBackward0 on cpu": 1,
        "AccumulateGrad on cpu": 1,
    }


def test_the_gradient_of_a_weight_that_there_is_not_is_on_no_other_device() -> None:
    values = torch.ones(4, 6, device=DEVICE, requires_grad=True)
    normed = functional.batch_norm(values, None, None, None, None, training=True)
    (gradient,) = torch.autograd.grad(normed.square().sum(), values, create_graph=True)
    assert not operators_elsewhere(gradient.sum(), DEVICE)
