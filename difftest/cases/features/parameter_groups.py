"""Parameters of few dims have options of their own."""

from difftest.cases.schema import Schema, Share


class Options(Schema, frozen=True):
    """The weight decay of the group of vectors."""

    decay: Share
