"""What the backward pass needs is kept on the host."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Any case; not where a block is computed again, so that nothing of it is kept."""
        return None if case.training.checkpointing else {}

    def spelled(self, _training: Training) -> Spelled:
        """Around the forward of the whole module."""
        return Spelled(
            built=(
                "def saving(x, forward=model.forward):",
                "    with torch.autograd.graph.save_on_cpu():",
                "        return forward(x)",
                "",
                "model.forward = saving",
            )
        )
