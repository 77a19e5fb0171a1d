"""A parameter that is not trained."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(options: Options, _training: Training) -> Spelled:
    """It is frozen before the model is placed."""
    return Spelled(built=(f"model.get_parameter({str(options['name'])!r}).requires_grad_(False)",))
