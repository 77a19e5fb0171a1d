"""The stages of a training step: where in a run something was recorded or went wrong."""

from enum import StrEnum


class Stage(StrEnum):
    """Where in a run, in the order within a step."""

    BUILD = "build"
    PLACE = "place"
    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


STAGES = tuple(Stage)
