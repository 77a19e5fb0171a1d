"""An event after the optimizer's step, for which FSDP waits before it gathers parameters again."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled


class Options(FeatureOptions, frozen=True):
    """It has none."""

    PATHS: ClassVar[tuple[str, ...]] = ("shards",)

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A case with a step after an update."""
        return {} if case.training.steps > 1 else None

    def spelled(self, _training: Training) -> Spelled:
        """An event of the CPU, which has no streams; the reference on one device waits for none."""
        return Spelled(
            after=(
                "if hasattr(model, 'set_post_optim_event'):",
                '    model.set_post_optim_event(torch.Event("cpu"))',
            )
        )
