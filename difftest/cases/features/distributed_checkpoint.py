"""A distributed checkpoint in the middle of a run."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, has
from difftest.cases.schema import Step


class Options(FeatureOptions, frozen=True):
    """The step before which the program saves and loads; whether pieces are others when it loads."""

    FURTHER_ON: ClassVar[tuple[str, ...]] = ("wrappers",)

    step: Step
    resharded: bool

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not before the first step, when there is no state yet.

        The path `wrappers` saves there too, as trainers do that begin with a checkpoint.
        """
        if case.training.steps == 1 or has(case, "save_and_load"):
            return None
        least = 0 if cls.draws_further(case) else 1
        return {"step": range(least, case.training.steps), "resharded": (False, True)}

    def spelled(self, _training: Training) -> None:
        """No script has one yet."""
