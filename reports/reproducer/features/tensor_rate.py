"""A learning rate that is a tensor."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(_options: Options, training: Training) -> Spelled:
    """The tensor is on the host, as in torch's documentation."""
    return Spelled(arguments={"lr": f"torch.tensor({training.learning_rate!r})"})
