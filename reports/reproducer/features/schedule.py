"""A scheduler of the learning rate."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled

STEP_SIZE = 2
PERIOD = 4
"""In steps, as in `workers.training.features.schedule`."""


def spelled(options: Options, training: Training) -> Spelled:
    """The scheduler is made ahead of the first step."""
    factor = float(options["factor"])
    made = {
        "step": f"StepLR(optimizer, {STEP_SIZE}, {factor!r})",
        "exponential": f"ExponentialLR(optimizer, {factor!r})",
        "linear": f"LinearLR(optimizer, {factor!r}, 1.0, {PERIOD})",
        "cosine": f"CosineAnnealingLR(optimizer, {PERIOD}, {factor * training.learning_rate!r})",
        "lambda": f"LambdaLR(optimizer, lambda step: 1 / (1 + {factor!r} * step))",
    }[str(options["kind"])]
    return Spelled(
        begun=(f"scheduler = torch.optim.lr_scheduler.{made}",),
        after=("scheduler.step()",),
    )
