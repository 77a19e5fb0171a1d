"""A program that stands for the dashboard agent of Ray's node, which a campaign does not use.

A raylet starts the agent, waits until it has said its ports, and ends with it. Ray's own takes 2 s of
processor time to start, because it imports Ray. This one says that it serves nothing, as Ray's does where the
dashboard is not installed. It imports nothing but the standard library, not even difftest.
"""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

NAMES = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
NONE = "-1"
"""A port that is not served, in Ray's words."""

POLL_SECONDS = 0.2


def say_ports(words: Sequence[str]) -> None:
    """Writes the files from which the raylet reads the ports; `words` are the arguments of Ray's agent."""
    given = dict(word.split("=", 1) for word in words if "=" in word)
    for name in NAMES:
        file = Path(given["--session-dir"]) / f"{name}_{given['--node-id']}"
        part = file.with_suffix(".part")
        part.write_text(NONE)
        part.replace(file)


if __name__ == "__main__":
    raylet = os.getppid()
    say_ports(sys.argv)
    while os.getppid() == raylet:
        time.sleep(POLL_SECONDS)
