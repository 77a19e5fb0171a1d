"""The state of module and optimizer by `get_state_dict`, with its options, and back by `set_state_dict`."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, has
from difftest.cases.schema import Step


class Options(FeatureOptions, frozen=True):
    """The step before which that is, and in what form the state is.

    It is whole on every rank (`full`), in pieces on the host (`offloaded`), whole on the first rank's host
    and sent from there when it is loaded, by `set_state_dict` (`broadcast`) or by its two halves, for the
    module and for the optimizer (`sent`, `gathered`), in pieces or whole with a flattened state of the
    optimizer (`flattened`, `whole_flattened`), in pieces that are loaded without `strict` (`loose`), or
    without those of frozen parameters (`trained`).
    """

    PATHS: ClassVar[tuple[str, ...]] = ("wrappers", "states", "own_steps")
    FURTHER_ON: ClassVar[tuple[str, ...]] = ("states", "own_steps")

    step: Step
    form: Literal[
        "full",
        "offloaded",
        "broadcast",
        "sent",
        "gathered",
        "flattened",
        "whole_flattened",
        "loose",
        "trained",
    ]

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not before the first step, when there is no state yet; not beside what loads or changes sets.

        `broadcast` is not drawn: it fails on all ranks but the first, for which the others wait until
        the run's deadline (`known/broadcast_state_dict.py`).
        """
        others = ("averaged_weights", "distributed_checkpoint", "save_and_load", "kept_state_dict")
        frozen = has(case, "frozen")
        further = cls.draws_further(case)
        if case.training.steps == 1 or has(case, *others, "unfreezing", "parameter_groups"):
            return None
        if frozen and not further:
            return None
        forms: tuple[str, ...] = ("full", "offloaded", "flattened", "loose", "sent")
        if further:
            forms = ("trained",) if frozen else (*forms, "gathered", "trained", "whole_flattened")
        return {"step": range(1, case.training.steps), "form": forms}

    def spelled(self, _training: Training) -> None:
        """No script has one yet."""
