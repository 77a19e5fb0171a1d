"""An optimizer whose state is sharded over replicas."""

from collections.abc import Collection
from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.layout import Replicate


class Options(FeatureOptions, frozen=True):
    """Whether parameters are views of a rank's bucket (`parameters_as_bucket_view`), in torch's.

    In torch_xla's, how many megabytes a bucket of gradients that are reduced has, and one of weights that are
    gathered, 0 for each tensor by itself; and whether hooks add up gradients (`use_grad_acc_hook`).
    """

    FURTHER_ON: ClassVar[tuple[str, ...]] = ("replicated",)
    OF_REPLICAS: ClassVar[bool] = True

    bucket_view: bool = False
    reduced_bucket: int = 0
    gathered_bucket: int = 0
    accumulation_hook: bool = False

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Replicas, each of which needs a parameter; the state of one rank alone cannot be saved.

        The path `features` has had it without the option, which only `replicated` draws.
        """
        few = len(case.model.parameters()) < case.world_size
        if not is_whole(case) or few or has(case, "save_and_load", "distributed_checkpoint", "optimizer"):
            return None
        if not cls.draws_further(case):
            return {}
        return {
            "bucket_view": (False, True),
            "reduced_bucket": (0, 1),
            "gathered_bucket": (0, 1),
            "accumulation_hook": (False, True),
        }

    def spelled(self, _training: Training) -> Spelled:
        """Torch's `ZeroRedundancyOptimizer`; the reference on one device has the optimizer itself."""
        view = {"parameters_as_bucket_view": "True"} if self.bucket_view else {}
        return Spelled(around="ZeroRedundancyOptimizer", sharded=view)


def is_whole(case: Case) -> bool:
    """Whether every rank has every parameter whole."""
    return all(at == Replicate() for placements in case.layout.parameters.values() for at in placements)


def in_equal_shares(case: Case, beside: Collection[str]) -> bool:
    """Whether replicas have as many rows each, in one part, and no feature but those of `beside`."""
    rows = case.training.accumulation == 1 and case.part_rows % case.world_size == 0
    others = any(feature.name not in beside for feature in case.training_features)
    return is_whole(case) and case.world_size > 1 and rows and not others
