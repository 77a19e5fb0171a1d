"""Gradients that are clipped by their greatest magnitude."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(options: Options, _training: Training) -> Spelled:
    """By torch's function, over all parameters at once."""
    norm = python(options["norm"])
    return Spelled(
        update=(f"torch.nn.utils.clip_grad_norm_(model.parameters(), {norm}, norm_type=torch.inf)",)
    )
