"""An optimizer whose steps can be captured in a graph."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(_options: Options, _training: Training) -> Spelled:
    """As torch's argument of that name, which torch refuses on the CPU, where the reference runs."""
    return Spelled(arguments={"capturable": 'next(model.parameters()).device.type != "cpu"'})
