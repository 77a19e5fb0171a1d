"""Weights that shrink."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(options: Options, _training: Training) -> Spelled:
    """As torch's argument of that name."""
    return Spelled(arguments={"weight_decay": python(options["decay"])})
