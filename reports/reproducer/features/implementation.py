"""An optimizer's implementation: `foreach` or `fused`."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(options: Options, _training: Training) -> Spelled:
    """As torch's argument of that name."""
    return Spelled(arguments={"foreach" if options["kind"] == "foreach" else "fused": "True"})
