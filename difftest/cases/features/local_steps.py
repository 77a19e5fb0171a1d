"""Post-local SGD: ranks update by themselves, and their parameters are averaged every few updates."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions
from difftest.cases.features import sharded_optimizer
from difftest.cases.schema import Size, Step

BESIDE = ("implementation",)
"""The features whose reference needs nothing within an update: in further ones nothing else happens."""


class Options(FeatureOptions, frozen=True):
    """How many updates of ranks lie between two averages, from which step on, and who averages gradients.

    Before `step` gradients are averaged over all ranks, and from then on over `together` neighbours alone; 1:
    over none.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("replicated",)
    OF_RANKS: ClassVar[bool] = True
    OF_REPLICAS: ClassVar[bool] = True

    period: Size
    step: Step
    together: Size

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Replicas with as many rows each, whose gradients no option changes, in one part."""
        changed = case.training.clip_norm is not None or case.data.learnable
        if changed or not sharded_optimizer.in_equal_shares(case, BESIDE):
            return None
        groups = tuple(size for size in range(1, case.world_size) if case.world_size % size == 0)
        return {"period": (2, 3), "step": range(case.training.steps), "together": groups}

    def spelled(self, _training: Training) -> None:
        """No script has one yet."""
