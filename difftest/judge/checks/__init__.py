"""What is asked of every candidate. A check is a file here: a function that yields divergences.

`ORDER` settles which of several divergences at one step and stage comes first: the lower, the nearer to a cause.
"""

from collections.abc import Iterable
from typing import Protocol

from difftest.judge.divergence import Divergence
from difftest.judge.measured import Pair


class Check(Protocol):
    """What a module in this folder offers."""

    ORDER: int

    def check(self, seen: Pair) -> Iterable[Divergence]:
        """The divergences of one pair, in any order."""
