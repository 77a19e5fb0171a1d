"""Scripts that train in unusual ways: modules alone, evaluation mode, sparse gradients, dataclass outputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import difftest
from difftest.runs import layout
from difftest.runs.read import WholeTensor, read

pytestmark = pytest.mark.slow

Loss: TypeAlias = Callable[[nn.Module, int], Tensor]


def drawn(step: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(step))


def tokens(step: int) -> Tensor:
    return torch.randint(0, 12, (8, 5), generator=torch.Generator().manual_seed(step))


def sgd(model: nn.Module) -> Sequence[Any]:
    return [torch.optim.SGD(model.parameters(), 0.1)]


def train(
    out: Path,
    build: Callable[[], nn.Module],
    loss: Loss,
    *,
    optimizers: Callable[[nn.Module], Sequence[Any]] = sgd,
    times: float = 1.0,
) -> None:
    """Records 3 steps. What a decoder computes is multiplied by `times`."""
    torch.manual_seed(0)
    model = build()
    if times != 1:
        decoder: Any = model.get_submodule("decoder")
        forward = decoder.forward
        decoder.forward = lambda given: forward(given) * times
    chosen = optimizers(model)
    recorder = difftest.record(model, list(chosen), out=out)
    for step in range(3):
        value = loss(model, step)
        value.backward()
        for optimizer in chosen:
            optimizer.step()
            optimizer.zero_grad()
        recorder.step(value)
    recorder.close()


def owners(folder: Path, kind: str) -> list[str]:
    wholes: dict[Any, WholeTensor] = read(folder).whole(1)
    return [owner + place for which, owner, place in wholes if which == kind]


class Coder(nn.Module):
    """What scripts call the parts of, and never itself."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 3), nn.Linear(3, 6)


def reconstruction(model: nn.Module, step: int) -> Tensor:
    x = drawn(step, 16, 6)
    once = model.get_submodule("decoder")(model.get_submodule("encoder")(x))
    return functional.mse_loss(model.get_submodule("decoder")(model.get_submodule("encoder")(once)), x)


def test_a_model_whose_modules_alone_are_called_is_recorded_call_by_call(tmp_path: Path) -> None:
    train(tmp_path / "right", Coder, reconstruction)
    assert owners(tmp_path / "right", layout.OUTPUT) == ["encoder", "decoder", "encoder@1", "decoder@1"]
    assert owners(tmp_path / "right", layout.INPUT) == ["0"]
    train(tmp_path / "again", Coder, reconstruction)
    assert difftest.compare(tmp_path / "right", tmp_path / "again").verdict == "equal within rounding"
    train(tmp_path / "wrong", Coder, reconstruction, times=1.01)
    first = difftest.compare(tmp_path / "right", tmp_path / "wrong").first
    assert first
    assert (first.step, first.kind, first.owner) == (0, "output", "decoder")


def test_a_model_that_trains_in_evaluation_mode_is_recorded(tmp_path: Path) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).eval()

    train(tmp_path / "run", build, lambda model, step: model(drawn(step, 16, 6)).square().mean())
    assert owners(tmp_path / "run", layout.OUTPUT) == ["0", "1", "2", ""]


class Counting(nn.Module):
    """A model with statistics, a constant and a count."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 2)
        self.register_buffer("scale", torch.ones(6))

    def forward(self, given: Tensor) -> Tensor:  # noqa: D102
        scores: Tensor = self.head(self.norm(given) * self.scale)
        return scores


def test_buffers_are_recorded_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    def loss(model: nn.Module, step: int) -> Tensor:
        value: Tensor = model(drawn(step, 16, 6)).square().mean()
        return value

    def wrong(model: nn.Module, step: int) -> Tensor:
        value: Tensor = loss(model, step)
        if step == 1:
            model.get_buffer("norm.running_var").data.mul_(1.01)
        return value

    train(tmp_path / "right", Counting, loss)
    assert owners(tmp_path / "right", layout.BUFFER) == ["scale", "norm.running_mean", "norm.running_var"]
    train(tmp_path / "again", Counting, loss)
    assert difftest.compare(tmp_path / "right", tmp_path / "again").status == 0
    train(tmp_path / "wrong", Counting, wrong)
    first = difftest.compare(tmp_path / "right", tmp_path / "wrong").first
    assert first
    assert (first.step, first.kind, first.owner) == (1, "buffer", "norm.running_var")


def test_a_validation_between_steps_is_no_micro_batch(tmp_path: Path) -> None:
    def loss(model: nn.Module, step: int) -> Tensor:
        value: Tensor = model.train()(drawn(step, 16, 6)).square().mean()
        model.eval()(drawn(step + 100, 16, 6))
        return value

    train(tmp_path / "run", lambda: nn.Sequential(nn.Linear(6, 2)), loss)
    run = read(tmp_path / "run")
    assert [run.ranks[0].steps[step].microbatches for step in run.steps] == [1, 1, 1]


class Bag(nn.Module):
    """A table with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(12, 4, sparse=True), nn.Linear(4, 2)

    def forward(self, given: Tensor) -> Tensor:  # noqa: D102
        scores: Tensor = self.head(self.table(given).mean(1))
        return scores


def test_a_sparse_gradient_is_recorded_as_the_whole_tensor(tmp_path: Path) -> None:
    def optimizers(model: nn.Module) -> Sequence[Any]:
        table, head = model.get_submodule("table"), model.get_submodule("head")
        return [torch.optim.SparseAdam(list(table.parameters())), torch.optim.Adam(head.parameters())]

    train(
        tmp_path / "run", Bag, lambda model, step: model(tokens(step)).square().mean(), optimizers=optimizers
    )
    gradient = read(tmp_path / "run").whole(0)[(layout.GRADIENT, "table.weight", "")]
    assert gradient.shape == (12, 4)
    assert gradient.norm > 0


@dataclass
class Output:
    """What a model returns."""

    loss: Tensor
    scores: Tensor


class Returning(nn.Module):
    """A model that returns a dataclass."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, given: Tensor) -> Output:  # noqa: D102
        scores = self.linear(given)
        return Output(scores.square().mean(), scores)


def test_the_tensors_of_a_dataclass_are_recorded_by_their_fields(tmp_path: Path) -> None:
    train(tmp_path / "run", Returning, lambda model, step: model(drawn(step, 16, 6)).loss)
    assert owners(tmp_path / "run", layout.OUTPUT) == ["linear", ".scores"]


Compute: TypeAlias = Callable[[], Tensor]


def apart(compute: Compute, optimizer: torch.optim.Optimizer) -> None:
    compute()
    optimizer.step()


CLOSURES: dict[str, Callable[[Compute, Any], None]] = {
    "by name": lambda compute, optimizer: optimizer.step(closure=compute),
    "by place": lambda compute, optimizer: optimizer.step(compute),
}


def updated(out: Path | None, update: Callable[[Compute, Any], None]) -> list[Tensor]:
    """Trains 3 steps, whose gradients `update` computes; returns the parameters."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    recorder = difftest.record(model, optimizer, out=out) if out else None
    for step in range(3):

        def compute(step: int = step) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = model(drawn(step, 8, 6)).square().mean()
            loss.backward()
            return loss

        update(compute, optimizer)
        if recorder:
            recorder.step()
    if recorder:
        recorder.close()
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("way", CLOSURES)
def test_gradients_that_a_closure_of_the_optimizer_computes_are_recorded(tmp_path: Path, way: str) -> None:
    plain = updated(tmp_path / "plain", apart)
    for values in (updated(None, CLOSURES[way]), updated(tmp_path / "closure", CLOSURES[way])):
        assert all(torch.equal(one, two) for one, two in zip(plain, values, strict=True))
    one, two = (read(tmp_path / name) for name in ("plain", "closure"))
    for step in range(3):
        assert len([key for key in two.whole(step) if key[0] == layout.GRADIENT]) == 4
        for key, whole in one.whole(step).items():
            assert (whole.row == two.whole(step)[key].row).all(), (step, key)
