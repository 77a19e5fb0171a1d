"""Another optimizer of `torch.optim`."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled

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
    arguments = {"lr": repr(float(options["rate"])), "foreach": repr(options["form"] == "foreach")}
    return Spelled(kind=CLASSES[str(options["kind"])], arguments=arguments)
