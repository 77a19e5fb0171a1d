"""The reference of a user's code: casts, loops and products that have no float64 kernel."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.utils._python_dispatch import TorchDispatchMode

from workers.own import loops
from workers.own.precision import narrow, wide
from workers.training.perturb_program import perturbed

pytestmark = pytest.mark.slow

HALF, SINGLE = 2.0**-9, 2.0**-24
"""The unit roundoffs of bfloat16 and float32."""


def values(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def noise(function: Callable[[], Tensor]) -> float:
    """How far float32's simulated rounding moves a result, relative to its size."""
    with wide():
        exact = function()
    squares = []
    for seed in range(8):
        with perturbed("float32", seed), wide():
            squares.append((function() - exact).square().mean())
    return float((torch.stack(squares).mean() / exact.square().mean()).sqrt())


MATRIX = values(8, 8)


grouped_mm = torch._grouped_mm  # noqa: SLF001  torch 2.9 has no public name for it


def product(left: Tensor, right: Tensor) -> Tensor:
    return (left @ right.T).float()


CASTING: dict[str, Callable[[], Tensor]] = {
    "bfloat16()": lambda: product(MATRIX.bfloat16(), MATRIX.bfloat16()),
    "type_as": lambda: product(MATRIX.type_as(torch.ones(1, dtype=torch.bfloat16)), MATRIX.bfloat16()),
    "in place": lambda: MATRIX.bfloat16().mul_(3.0).add_(1.0).float(),
}


@pytest.mark.parametrize("how", CASTING)
def test_what_follows_from_a_cast_to_a_half_type_rounds_as_that(how: str) -> None:
    assert 0.1 * HALF < noise(CASTING[how]) < 4 * HALF


def test_a_cast_back_rounds_as_the_case_again() -> None:
    def function() -> Tensor:
        return (MATRIX.bfloat16().float() * 0.0 + MATRIX) @ MATRIX

    assert noise(function) < 8 * SINGLE


class Look(TorchDispatchMode):
    """Notes which half type every operator has that the user's code calls."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.types = list[str | None]()

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        _types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        self.types.append(narrow())
        return func(*args, **(kwargs or {}))


def test_a_half_tensor_beside_a_float32_tensor_is_promoted() -> None:
    single, number = MATRIX.square(), MATRIX.sum()
    with Look() as look, wide():
        half = MATRIX.bfloat16()
        scaled = half * 2.0 + number
        promoted = scaled * single
        scaled.add_(promoted)
    assert look.types == ["bfloat16", "bfloat16", "bfloat16", None, "bfloat16"]


def test_the_reference_itself_rounds_nothing_where_the_code_casts() -> None:
    with wide():
        assert torch.equal(MATRIX.bfloat16().half().float(), MATRIX)


def test_autocast_rounds_products_and_leaves_the_rest() -> None:
    linear = nn.Linear(8, 8, dtype=torch.float64)

    def function() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            output: Tensor = linear(MATRIX)
        return output.float()

    with torch.no_grad():
        assert 0.1 * HALF < noise(function) < 4 * HALF
        assert noise(lambda: linear(MATRIX)) < 8 * SINGLE


def test_muon_in_float32_is_within_a_few_times_the_simulated_rounding() -> None:
    def trained(dtype: torch.dtype) -> Tensor:
        weight = nn.Parameter(MATRIX.to(dtype, copy=True))
        optimizer = torch.optim.Muon([weight], lr=0.05)
        weight.grad = values(8, 8, seed=1).to(dtype)
        optimizer.step()
        return weight.detach().double() - MATRIX

    with wide():
        exact = trained(torch.float64)
    real = float((trained(torch.float32) - exact).square().mean().sqrt())
    simulated = noise(lambda: trained(torch.float64)) * float(exact.square().mean().sqrt())
    assert simulated / 4 < real < simulated * 4


def test_a_grouped_product_is_that_of_torchs_kernel_in_every_form() -> None:
    ends = torch.tensor([3, 4, 8], dtype=torch.int32)
    for left, right, offsets in (
        ((8, 8), (3, 8, 8), ends),
        ((3, 8, 8), (8, 8), ends),
        ((8, 8), (8, 8), ends),
        ((3, 8, 8), (3, 8, 8), None),
    ):
        a, b = values(*left), values(*right, seed=1)
        with wide() as decomposed:
            exact = grouped_mm(a, b, offs=offsets)
        single = grouped_mm(a.float(), b.float(), offs=offsets)
        assert decomposed == {"_grouped_mm"}
        assert exact.dtype == torch.float64
        assert torch.allclose(single.double(), exact, atol=1e-5)


def test_rows_of_no_group_are_zeros() -> None:
    ends = torch.tensor([3, 4], dtype=torch.int32)
    with wide():
        rows = grouped_mm(values(8, 4), values(2, 4, 5), offs=ends)
    assert rows.shape == (8, 5)
    assert not rows[4:].any()
    assert rows[:4].all()


def test_a_grouped_product_has_a_gradient_in_float64() -> None:
    ends = torch.tensor([3, 8], dtype=torch.int32)
    left, right = values(8, 8).requires_grad_(), values(2, 8, 8, seed=1).requires_grad_()
    with wide():
        grouped_mm(left, right, offs=ends).square().sum().backward()
    own = [one.detach().clone().requires_grad_() for one in (left, right)]
    torch.cat([own[0][:3] @ own[1][0], own[0][3:] @ own[1][1]]).square().sum().backward()
    for ours, written in zip((left, right), own, strict=True):
        assert ours.grad is not None
        assert written.grad is not None
        assert torch.allclose(ours.grad, written.grad)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_as_a_loop_is_torchs(reverse: bool) -> None:
    rows, start = values(5, 3), torch.zeros(3, dtype=torch.float64)

    def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        return torch.tanh(state + row), state * row

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = scan(step, start, rows, dim=0, reverse=reverse)
    ours = loops.scan(step, start, rows, dim=0, reverse=reverse)
    assert all(torch.allclose(*pair) for pair in zip(ours, theirs, strict=True))


def test_a_scan_along_another_dim_takes_trees() -> None:
    columns = {"a": values(3, 5), "b": values(3, 5, seed=1)}
    last, sums = loops.scan(
        lambda state, at: (state + at["a"] * at["b"],) * 2,
        torch.zeros(3, dtype=torch.float64),
        columns,
        dim=1,
    )
    expected = (columns["a"] * columns["b"]).cumsum(1)
    assert torch.allclose(last, expected[:, -1])
    assert torch.allclose(sums, expected.T)


def test_the_other_functions_of_control_flow_are_what_torch_documents() -> None:
    rows = values(4, 3)
    sums = loops.associative_scan(torch.add, rows, 0)
    assert torch.allclose(sums, rows.cumsum(0))
    backwards = loops.associative_scan(torch.add, rows, 1, reverse=True)
    assert torch.allclose(backwards, rows.flip(1).cumsum(1).flip(1))
    count, total = loops.while_loop(
        lambda count, _: count < 4,
        lambda count, total: (count + 1, total * 2),
        (torch.tensor(0), torch.ones(1)),
    )
    assert (count.item(), total.item()) == (4, 16.0)
    assert torch.equal(loops.map(torch.mul, rows, rows[0]), rows * rows[0])
    assert loops.cond(torch.tensor(0), lambda one: one, lambda one: -one, (3,)) == -3
