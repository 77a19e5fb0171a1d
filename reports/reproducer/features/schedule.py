"""A scheduler of the learning rate."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python

STEP_SIZE = 2
PERIOD = 4
"""In steps, as in `workers.training.features.schedule`."""


def spelled(options: Options, training: Training) -> Spelled:
    """The scheduler is made ahead of the first step."""
    factor = float(options["factor"])
    made = {
        "step": f"StepLR(optimizer, {STEP_SIZE}, {python(factor)})",
        "exponential": f"ExponentialLR(optimizer, {python(factor)})",
        "linear": f"LinearLR(optimizer, {python(factor)}, 1.0, {PERIOD})",
        "cosine": f"CosineAnnealingLR(optimizer, {PERIOD}, {python(factor * training.learning_rate)})",
        "lambda": f"LambdaLR(optimizer, lambda step: 1 / (1 + {python(factor)} * step))",
    }[str(options["kind"])]
    return Spelled(
        begun=(f"scheduler = torch.optim.lr_scheduler.{made}",),
        after=("scheduler.step()",),
    )
