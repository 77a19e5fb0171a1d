"""Activation checkpointing of torch's older kind."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(_options: Options, _training: Training) -> Spelled:
    """As torch's argument `use_reentrant`."""
    return Spelled(reentrant=True)
