"""The folder in which difftest keeps what belongs to a user and not to a campaign."""

import os
from pathlib import Path

VARIABLE = "XDG_STATE_HOME"


def state_folder(*parts: str) -> Path:
    """The path of `parts` below `$XDG_STATE_HOME/difftest`, or else `~/.local/state/difftest`.

    A relative `XDG_STATE_HOME` is ignored, as its specification says. Nothing is created.
    """
    state = Path(os.environ.get(VARIABLE, ""))
    return (state if state.is_absolute() else Path("~/.local/state").expanduser()).joinpath(
        "difftest", *parts
    )
