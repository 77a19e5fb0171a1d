"""A learning rate that is a tensor."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(_options: Options, training: Training) -> Spelled:
    """The tensor is on the host, as in torch's documentation."""
    return Spelled(arguments={"lr": f"torch.tensor({python(training.learning_rate)})"})
