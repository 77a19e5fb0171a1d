"""Two groups of parameters, of which one has a weight decay."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(options: Options, _training: Training) -> Spelled:
    """The groups differ in `weight_decay`."""
    matrices, vectors = (f"[one for one in model.parameters() if one.dim() {sign} 1]" for sign in (">", "<="))
    decay = python(options["decay"])
    return Spelled(parameters=f'[{{"params": {matrices}}}, {{"params": {vectors}, "weight_decay": {decay}}}]')
