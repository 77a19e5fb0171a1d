"""What a user's module returns and keeps beside its first output: which tensors, and that all count."""

import dataclasses
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from own_models import described_in
from real_runs import compared, oracle_trace
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.layers.own import OverRows
from difftest.ground.errors import UsageError
from difftest.judge.stage import Stage
from generators import own
from workers.own import results

pytestmark = pytest.mark.slow

A, B, LOSS = torch.ones(4, 2), torch.zeros(4, 3), torch.tensor(2.0)
Pair = namedtuple("Pair", "left right")  # noqa: PYI024  what users' code returns


@dataclasses.dataclass
class Both:
    """An output that torch finds no tensors in."""

    first: Tensor
    rest: Any


@pytest.mark.parametrize(
    ("outputs", "places"),
    [
        (A, ["0"]),
        ((LOSS, A, B), ["1", "2", "0"]),
        ({"loss": LOSS, "logits": A, "past": ((B,), None)}, ["logits", "past.0.0", "loss"]),
        (Both(A, Pair(B, "text")), ["first", "rest.left"]),
        (SimpleNamespace(loc=A, scale=B, count=3), ["loc", "scale"]),
        ({"a key/of one": A, "3rd": B}, ["a_key_of_one", "_3rd"]),
        ({"a": A, "again": A, "ids": torch.ones(4, dtype=torch.long)}, ["a"]),
    ],
)
def test_every_floating_tensor_of_an_output_has_a_place_and_a_loss_comes_last(
    outputs: object, places: list[str]
) -> None:
    assert list(results.floats(outputs)) == places


def test_an_output_without_a_floating_tensor_is_refused() -> None:
    with pytest.raises(UsageError, match="returns dict without a floating-point tensor"):
        results.floats({"ids": torch.ones(4, dtype=torch.long)})


WHOLE = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("of_rows", "over"),
    [
        (lambda rows: rows, 0),
        (lambda rows: rows.T.contiguous(), 1),
        (lambda _rows: torch.ones(3), "same"),
        (lambda rows: rows.mean(0), "mean"),
        (lambda rows: rows.square().mean().sqrt(), "all"),
        (lambda rows: rows - rows.mean(0), "all"),
    ],
)
def test_what_a_tensor_is_over_rows_follows_from_halves(
    of_rows: Callable[[Tensor], Tensor], over: OverRows
) -> None:
    halves = [of_rows(WHOLE[:2]), of_rows(WHOLE[2:])]
    assert results.over_rows(of_rows(WHOLE), halves) == over
    assert results.over_rows(of_rows(WHOLE), [None, halves[1]]) == "all"


class Keeping(nn.Module):
    """A module with buffers of all kinds."""

    mean: Tensor
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.full((2, 2), -torch.inf))
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("calls", torch.tensor(0))
        self.register_buffer("large", torch.zeros(results.MOST_ELEMENTS + 1))
        self.register_buffer("turns", torch.ones(3, dtype=torch.complex64))

    def after(self, rows: Tensor) -> "Keeping":
        """The module after it has met these rows."""
        self.mean = self.mean + rows.mean(0)
        self.calls = self.calls + 1
        return self


def test_buffers_are_kept_with_their_dtypes_but_infinite_and_large_constant_ones() -> None:
    rows = WHOLE[:, :2]
    after = Keeping().after(rows)
    kept = results.buffers(Keeping(), after, [Keeping().after(rows[:2]), Keeping().after(rows[2:])])
    assert {name: (one.shape, one.dtype, one.of_all_rows) for name, one in kept.items()} == {
        "mean": ((2,), "", True),
        "calls": ((), "int64", False),
        "turns": ((3,), "complex64", False),
    }


VAE = """
import dataclasses
import torch
from torch import nn


@dataclasses.dataclass
class Output:
    sample: torch.Tensor
    mu: torch.Tensor
    penalty: torch.Tensor
    columns: torch.Tensor


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(4, 8)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x, noise):
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        mu = self.encoder(x)
        with torch.no_grad():
            self.mean.mul_(0.5).add_(mu.mean(0), alpha=0.5)
            self.calls += 1
            {in_no_grad}
        sample = self.decoder(mu + 0.1 * noise)
        return Output(sample, {mu}, mu.square().sum(1).mean(), mu.T.tanh())


def build(seed):
    return VAE()


def batch(generator, rows):
    x = torch.randn(rows, 8, generator=generator)
    return (x, torch.randn(rows, 4, generator=generator)), x


def loss(output, x):
    return (output.sample - x).square().mean() + 0.01 * output.penalty
"""


def case_of(folder: Path, monkeypatch: pytest.MonkeyPatch, mu: str = "mu", in_no_grad: str = "pass") -> Case:
    source = VAE.replace("{mu}", mu).replace("{in_no_grad}", in_no_grad)
    description = described_in(folder, monkeypatch, source)
    cases = (own.case_at(description, 0, i, wanted=("data_parallel",), max_world_size=2) for i in range(99))
    case = next(one for one in cases if one.dtype == "float32" and one.world_size > 1)
    training = msgspec.structs.replace(case.training, steps=2, accumulation=2)
    data = msgspec.structs.replace(case.data, batch=8)
    return msgspec.structs.replace(case, training=training, data=data, features=msgspec.UNSET)


def test_all_outputs_and_buffers_are_compared_where_ranks_can_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(tmp_path, monkeypatch)
    layer = case.model.own
    assert layer
    assert layer.results == {"mu": 0, "penalty": "mean", "columns": 1}
    assert {name: one.of_all_rows for name, one in layer.kept.items()} == {"mean": True, "calls": False}
    further = {f"{output} {place}" for output in ("output", "output.1") for place in layer.results}
    assert {name for stage, name in oracle_trace(case).steps[0] if stage is Stage.FORWARD} >= further
    for backend, of_all_rows in (("torch_ddp", False), ("torch_dtensor", True)):
        comparison = compared(case, backend)
        assert comparison.verdict == "agree", (backend, comparison)
        measured = {one.tensor for one in comparison.measurements}
        assert measured >= {*further, "0.calls"}
        assert ("0.mean" in measured) is of_all_rows


@pytest.mark.parametrize(
    ("fault", "check", "tensor"),
    [
        ({"mu": "mu * (1 + rank)"}, "loss", "output mu"),
        ({"in_no_grad": "self.calls += rank"}, "replicas", "0.calls"),
    ],
)
def test_a_wrong_further_output_and_a_wrong_buffer_are_reported_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: dict[str, str], check: str, tensor: str
) -> None:
    first, *_ = compared(case_of(tmp_path, monkeypatch, **fault), "torch_ddp").divergences
    assert (first.check, first.tensor) == (check, tensor)
