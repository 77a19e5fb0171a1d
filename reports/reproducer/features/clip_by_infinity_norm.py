"""Gradients that are clipped by their greatest magnitude."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(options: Options, _training: Training) -> Spelled:
    """By torch's function, over all parameters at once."""
    norm = float(options["norm"])
    return Spelled(
        update=(f"torch.nn.utils.clip_grad_norm_(model.parameters(), {norm!r}, norm_type=torch.inf)",)
    )
