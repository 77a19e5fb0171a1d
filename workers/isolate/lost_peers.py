"""A rank that lost its connection to another one: a consequence of what happened to that one.

The words are those of torch's gloo, its TCP store and NCCL.
"""

import re

from difftest.judge.outcome import Failure

LOST = re.compile(
    r"Connection (was )?(closed|reset) by (remote )?peer|Connection was likely closed"
    r"|remote process exited or there was a network error|Broken pipe|Socket closed"
)


def lost_a_peer(failure: Failure) -> bool:
    """Whether what a rank reports is the end of another rank."""
    return LOST.search(failure.message) is not None
