"""An optimizer whose state is sharded over replicas."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.layout import Replicate


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Replicas, each of which needs a parameter; the state of one rank alone cannot be saved."""
        whole = all(at == Replicate() for placements in case.layout.parameters.values() for at in placements)
        few = len(case.model.parameters()) < case.world_size
        if not whole or few or has(case, "save_and_load", "distributed_checkpoint", "optimizer"):
            return None
        return {}

    def spelled(self, _training: Training) -> Spelled:
        """Torch's `ZeroRedundancyOptimizer`; the reference on one device has the optimizer itself."""
        return Spelled(around="ZeroRedundancyOptimizer")
