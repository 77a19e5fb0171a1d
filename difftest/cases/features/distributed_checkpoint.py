"""A distributed checkpoint in the middle of a run."""

from difftest.cases.schema import Schema, Step


class Options(Schema, frozen=True):
    """The step before which the program saves and loads; whether pieces are others when it loads."""

    step: Step
    resharded: bool
