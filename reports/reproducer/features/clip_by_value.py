"""Gradients that are clipped by value."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(options: Options, _training: Training) -> Spelled:
    """By torch's function, over all parameters at once."""
    value = python(options["value"])
    return Spelled(update=(f"torch.nn.utils.clip_grad_value_(model.parameters(), {value})",))
