"""What a trial of a user's model says: what it reads and mixes, and how its rows belong together."""

import copy
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from difftest.cases.numbers import IGNORE_INDEX
from difftest.ground.errors import UsageError
from workers.own import masks
from workers.own.rows import rows_of
from workers.own.trial import ROWS, Trial, TrialBatch

pytestmark = pytest.mark.slow

WIDTH = 4


class Code(nn.Module):
    """A linear layer and then what a test says."""

    def __init__(self, forward: Callable[[Tensor, nn.Module], Tensor]) -> None:
        super().__init__()
        self.inner, self.after = nn.Linear(WIDTH, WIDTH), forward
        self.register_buffer("ones", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.after(self.inner(x), self)


def trial_of(
    forward: Callable[[Tensor, Any], Tensor],
    targets: Tensor | None = None,
    **functions: Any,  # noqa: ANN401
) -> Trial:
    torch.manual_seed(0)
    code = Code(forward)
    source = ModuleType("source")
    vars(source).update(functions)
    inputs = (
        torch.randn(ROWS, WIDTH)
        if targets is None or targets.dim() < 2
        else torch.randn(*targets.shape, WIDTH)
    )
    chosen = torch.randn(ROWS, WIDTH) if targets is None else targets
    kind: Any = "own" if "loss" in functions else "mse" if targets is None else "cross_entropy"
    return Trial(source, lambda: copy.deepcopy(code), TrialBatch({"0": inputs}, chosen), kind)


def scaled_by_a_number(x: Tensor, _: Any) -> Tensor:  # noqa: ANN401
    return x / max(1.0, x.abs().max().item())


def over_masked_rows(x: Tensor, _: Any) -> Tensor:  # noqa: ANN401
    return x + x[x[:, 0] > -100].sum() * 0


READING: dict[str, tuple[Callable[[Tensor, Any], Tensor], dict[str, int]]] = {
    "nothing": (lambda x, _: x.relu(), {}),
    "a number": (scaled_by_a_number, {"_local_scalar_dense": 1}),
    "a condition": (lambda x, _: x if bool((x > 1e9).any()) else -x, {"_local_scalar_dense": 1}),
    "a mask, whose gradient takes it too": (over_masked_rows, {"nonzero": 2}),
    "rows by number": (lambda x, _: x[torch.arange(ROWS)], {}),
    "positions": (lambda x, _: x[(x[:, 0] > -100).nonzero()[:, 0]], {"nonzero": 1}),
}


@pytest.mark.parametrize("what", READING)
def test_what_a_step_reads_on_the_host_is_counted(what: str) -> None:
    forward, reads = READING[what]
    assert trial_of(forward).reads() == reads


def test_what_the_optimizer_reads_is_counted_too_and_one_that_refuses_is_named() -> None:
    class Reading:
        def __init__(self, parameters: list[nn.Parameter]) -> None:
            self.parameters = parameters

        def step(self) -> None:
            for one in self.parameters:
                assert one.grad is not None
                one.data -= one.grad / one.grad.norm().item()

    reads = trial_of(lambda x, _: x, optimizer=Reading).reads()
    assert reads == {"_local_scalar_dense": 2}, "one for the weight and one for the bias"
    adam = trial_of(lambda x, _: x, optimizer=torch.optim.AdamW).reads()
    assert adam == {}, "it counts its steps on the host"
    with pytest.raises(UsageError, match=r"optimizer\(parameters\) fails: ValueError: Muon only supports 2D"):
        trial_of(lambda x, _: x, optimizer=torch.optim.Muon).reads()


MIXING: dict[str, tuple[Callable[[Tensor, Any], Tensor], bool]] = {
    "a chunk": (lambda x, _: torch.cat(x.chunk(2, -1)[::-1], -1), False),
    "a buffer": (lambda x, module: x * module.ones, False),
    "like its own": (lambda x, _: x + torch.zeros_like(x), False),
    "a number": (lambda x, _: x * 2.0 + torch.tensor(3.0), False),
    "a mask": (lambda x, _: x * torch.ones(WIDTH), True),
    "positions": (lambda x, _: x[torch.arange(ROWS)], True),
    "tensors of its own alone": (lambda x, _: x * float(torch.ones(WIDTH).sum()), False),
    "a mask of dropout": (lambda x, _: functional.dropout(x, 0.5), False),
}


@pytest.mark.parametrize("what", MIXING)
def test_what_plain_dtensor_would_refuse_is_a_mixture(what: str) -> None:
    masks.install()
    forward, mixes = MIXING[what]
    assert trial_of(forward).mixes() is mixes


def ignoring(numbers: tuple[int, ...]) -> Tensor:
    """Targets of which so many are ignored in each row."""
    targets = torch.arange(ROWS * 6).reshape(ROWS, 6) % WIDTH
    for row, number in enumerate(numbers):
        targets[row, 6 - number :] = IGNORE_INDEX
    return targets


def mean_of_valid(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def per_row(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
    valid = (targets != IGNORE_INDEX).sum(1)
    return (losses.reshape(targets.shape).sum(1) / valid.clamp(min=1)).mean()


def summed(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="sum")


def same(x: Tensor, _: Any) -> Tensor:  # noqa: ANN401
    return x


@pytest.mark.parametrize(
    "numbers",
    [(0, 1, 3, 4), (1, 2, 3, 4), (2, 2, 2, 2)],
    ids=["unequal", "unequal but for one row", "as many"],
)
@pytest.mark.parametrize("own", [{}, {"loss": mean_of_valid}], ids=["ours", "the user's"])
def test_a_mean_over_valid_targets_is_weighted_by_their_number(numbers: tuple[int, ...], own: Any) -> None:  # noqa: ANN401
    rows = rows_of(trial_of(same, ignoring(numbers), **own))
    assert (rows.apart, rows.mean, rows.of_targets, rows.add_up) == (True, False, True, True)
    assert rows.off > 0.05, "the mean of the halves' means is another gradient"


def test_a_mean_over_rows_is_none_over_targets() -> None:
    rows = rows_of(trial_of(same, ignoring((0, 1, 3, 4)), loss=per_row))
    assert (rows.apart, rows.mean, rows.of_targets) == (True, True, False)


def test_a_loss_that_is_no_mean_is_told_from_rows_that_influence_each_other() -> None:
    of_loss = rows_of(trial_of(same, ignoring((0, 0, 0, 0)), loss=summed))
    of_rows = rows_of(trial_of(lambda x, _: x - x.mean(0)))
    assert (of_loss.apart, of_loss.add_up) == (True, False)
    assert (of_rows.apart, of_rows.add_up) == (False, False)


def test_a_half_type_is_tried_with_one_row_and_with_all_where_the_module_needs_them() -> None:
    rows = list[int]()

    def alone(x: Tensor, _: Any) -> Tensor:  # noqa: ANN401
        rows.append(len(x))
        return x

    def together(x: Tensor, _: Any) -> Tensor:  # noqa: ANN401
        return alone(x, _)[torch.arange(ROWS)]

    def in_float32(x: Tensor, _: Any) -> Tensor:  # noqa: ANN401
        return x @ torch.ones(WIDTH, WIDTH)

    for forward, dtype, tried in (
        (alone, torch.float16, [1]),
        (together, torch.bfloat16, [1, ROWS]),
        (alone, torch.float32, [ROWS]),
    ):
        rows.clear()
        assert trial_of(forward).refusal(dtype) == ""
        assert rows == tried
    assert "fails in float16" in trial_of(in_float32).refusal(torch.float16)
