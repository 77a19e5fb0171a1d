"""Another optimizer of `torch.optim`."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.schema import Positive
from difftest.cases.script_values import python

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
"""The classes of `torch.optim` by kind."""

FACTORED = "adafactor"
"""One more, `Adafactor`, on the path `wrappers` alone."""

FUSED = ("adagrad",)
"""Those that a fused implementation is drawn of."""

EXCLUDED = (
    "amsgrad",
    "capturable",
    "implementation",
    "nesterov",
    "parameter_groups",
    "tensor_rate",
    "weight_decay",
)
"""The features that give the case's own optimizer arguments which not all of these have."""


class Options(FeatureOptions, frozen=True):
    """Which one, in which form, and its learning rate."""

    FURTHER_ON: ClassVar[tuple[str, ...]] = ("own_steps",)

    kind: Literal["adadelta", "adafactor", "adagrad", "adamax", "asgd", "nadam", "radam", "rmsprop", "rprop"]
    form: Literal["loop", "foreach", "fused"]
    rate: Positive

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not in float16, in which their epsilons are 0."""
        if case.dtype == "float16" or has(case, *EXCLUDED):
            return None
        rates = {"rate": (2.0**-7, 2.0**-10)}
        if cls.draws_further(case):
            return {"kind": FUSED, "form": ("fused",), **rates}
        return {"kind": tuple(CLASSES), "form": ("loop", "foreach"), **rates}

    def spelled(self, _training: Training) -> Spelled:
        """At its own learning rate, without the arguments of the optimizer that it replaces."""
        arguments = {name: python(value) for name, value in form(self).items()}
        return Spelled(kind=class_of(self.kind), arguments={"lr": python(self.rate), **arguments})


def class_of(kind: str) -> str:
    """The class of `torch.optim`."""
    return CLASSES.get(kind, FACTORED.title())


def form(options: Options) -> Mapping[str, bool]:
    """The arguments that choose the implementation."""
    return {"fused": True} if options.form == "fused" else {"foreach": options.form == "foreach"}
