"""Evaluation ahead of every step."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(_options: Options, _training: Training) -> Spelled:
    """The step's batch is evaluated; what it gives is kept, or lazy tensors would not be computed."""
    return Spelled(
        before=(
            "model.eval()",
            "with torch.no_grad():",
            "    evaluated = model(feed(inputs))",
            "model.train()",
        )
    )
