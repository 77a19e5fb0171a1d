"""Blocks that are computed again by a backward pass within the backward pass."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Where blocks are computed again, and DDP does not look for unused parameters: it cannot then."""
        return None if not case.training.checkpointing or case.replication.find_unused_parameters else {}

    def spelled(self, _training: Training) -> Spelled:
        """As torch's argument `use_reentrant`."""
        return Spelled(reentrant=True)
