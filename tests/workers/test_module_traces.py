"""What is kept of modules to locate a finding: the first tensor with rows that each gives."""

import pytest
import torch
from torch import Tensor, nn, ones

from difftest.campaign.localise import VARIABLE
from difftest.judge.stage import Stage
from workers.training.module_traces import ModuleWatch, joined


class WithLoss(nn.Module):
    """It returns its loss before its outputs, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The loss and the logits."""
        logits = self.head(rows).relu()
        return logits.square().mean(), logits


@pytest.mark.long
def test_a_number_that_a_module_gives_is_not_kept_but_the_tensor_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    model = nn.Sequential(WithLoss())
    watch = ModuleWatch(model)
    loss, _ = model(ones(2, 4))
    loss.backward()
    shapes = {name: tensor.shape for name, tensor in watch._kept.items()}  # noqa: SLF001  what is read
    assert shapes[Stage.FORWARD, "module 0"] == (2, 3)
    assert all(shapes.values())


@pytest.mark.long
def test_ranks_whose_rows_are_batches_of_their_own_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    watch, ranks = ModuleWatch(model), []
    for rows in (ones(2, 4), ones(3, 4) * 2):
        model(rows).square().sum().backward()
        ranks.append(watch.take())
    kept = joined(ranks)
    assert list(kept) == list(ranks[0])
    assert {tensor.shape for tensor in kept.values()} == {(5, 3)}
    name = Stage.FORWARD, "module 0"
    assert torch.equal(kept[name][2:], ranks[1][name])


def test_what_one_rank_lacks_or_has_in_another_shape_is_left_out() -> None:
    forward = Stage.FORWARD
    first = {(forward, "a"): ones(2, 3), (forward, "b"): ones(2, 3), (forward, "c"): ones(2, 3)}
    second = {(forward, "a"): ones(2, 3), (forward, "b"): ones(2, 4)}
    assert list(joined([first, second])) == [(forward, "a")]
