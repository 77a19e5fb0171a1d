"""A gradient scaler, and a step that overflows."""

from difftest.cases.schema import Schema, Step


class Options(Schema, frozen=True):
    """The step ahead of which a backward overflows."""

    step: Step
