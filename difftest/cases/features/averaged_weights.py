"""An exponential moving average of the weights, which the model has in the end."""

from difftest.cases.schema import Schema, Share


class Options(Schema, frozen=True):
    """How much of the average is kept in a step."""

    decay: Share
