"""A parameter that is not trained in the first steps."""

from difftest.cases.schema import Schema, Step, TensorName


class Options(Schema, frozen=True):
    """The parameter, and the step from which it is trained."""

    name: TensorName
    step: Step
