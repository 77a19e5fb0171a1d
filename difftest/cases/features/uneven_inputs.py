"""More batches on some ranks than on others, under `Join`."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions
from difftest.cases.features import sharded_optimizer
from difftest.cases.schema import Size

BESIDE = ("implementation", "sharded_optimizer")
"""The features whose reference needs nothing within an update: in further ones nothing else happens."""


class Options(FeatureOptions, frozen=True):
    """How many further batches there are after the last step, on how many ranks, `first` ones or last ones.

    Gradients are divided by the number of all ranks, or by that of those with a batch (`shrinking`).
    """

    PATHS: ClassVar[tuple[str, ...]] = ("replicated",)
    OF_RANKS: ClassVar[bool] = True
    OF_REPLICAS: ClassVar[bool] = True

    batches: Size
    ranks: Size
    first: bool
    shrinking: bool

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Replicas with as many rows each. A static graph may not end early, which torch refuses."""
        if case.replication.static_graph or not sharded_optimizer.in_equal_shares(case, BESIDE):
            return None
        return {
            "batches": (1, 2),
            "ranks": range(1, case.world_size),
            "first": (False, True),
            "shrinking": (False, True),
        }

    def spelled(self, _training: Training) -> None:
        """No script has one yet."""
