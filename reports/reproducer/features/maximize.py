"""An update that goes up."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(_options: Options, _training: Training) -> Spelled:
    """As torch's argument of that name."""
    return Spelled(arguments={"maximize": "True"})
