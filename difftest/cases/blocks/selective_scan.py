"""A selective state space model, step by step: Mamba's scan, with steps and states that follow the input."""

from difftest.cases.schema import Schema, Size


class Arguments(Schema, frozen=True):
    """Channels, and the states of each."""

    width: Size
    states: Size
