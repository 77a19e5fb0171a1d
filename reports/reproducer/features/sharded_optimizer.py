"""An optimizer whose state is sharded over replicas."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(_options: Options, _training: Training) -> Spelled:
    """Torch's `ZeroRedundancyOptimizer`; the reference on one device has the optimizer itself."""
    return Spelled(around="ZeroRedundancyOptimizer")
