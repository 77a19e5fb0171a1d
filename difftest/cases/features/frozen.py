"""A parameter that is not trained."""

from difftest.cases.schema import Schema, TensorName


class Options(Schema, frozen=True):
    """The parameter."""

    name: TensorName
