"""A parameter that is not trained."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(options: Options, _training: Training) -> Spelled:
    """It is frozen before the model is placed."""
    return Spelled(built=(f"model.get_parameter({python(options['name'])}).requires_grad_(False)",))
