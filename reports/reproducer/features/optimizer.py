"""Another optimizer of `torch.optim`."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python

CLASSES = {
    "adadelta": "Adadelta",
    "adagrad": "Adagrad",
    "adamax": "Adamax",
    "asgd": "ASGD",
    "nadam": "NAdam",
    "radam": "RAdam",
    "rmsprop": "RMSprop",
    "rprop": "Rprop",
}


def spelled(options: Options, _training: Training) -> Spelled:
    """At its own learning rate, without the arguments of the optimizer that it replaces."""
    arguments = {"lr": python(options["rate"]), "foreach": python(options["form"] == "foreach")}
    return Spelled(kind=CLASSES[str(options["kind"])], arguments=arguments)
