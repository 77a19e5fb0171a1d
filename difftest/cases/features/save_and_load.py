"""Saving and loading in the middle of a run."""

from difftest.cases.schema import Schema, Step


class Options(Schema, frozen=True):
    """The step before which the program saves and loads."""

    step: Step
