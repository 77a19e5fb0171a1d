"""What is kept of modules to locate a finding: the first tensor with rows that each gives."""

import pytest
from torch import Tensor, nn, ones

from difftest.campaign.localise import VARIABLE
from difftest.judge.stage import Stage
from workers.training.module_traces import Watch


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
    watch = Watch(model)
    loss, _ = model(ones(2, 4))
    loss.backward()
    shapes = {name: tensor.shape for name, tensor in watch._kept.items()}  # noqa: SLF001  what is read
    assert shapes[Stage.FORWARD, "module 0"] == (2, 3)
    assert all(shapes.values())
