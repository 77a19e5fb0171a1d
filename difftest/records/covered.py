"""What one comparison covered: the operators that its run reached, by how their operands were cut.

It is part of an observation. `difftest.records.coverage` counts many of them.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from difftest.judge.reached import Name, Names

ByEvenness: TypeAlias = Mapping[Name, Names]
"""Sorted names by how the operands were cut (`difftest.cases.evenness`)."""


class Covered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was compared with a verdict; empty for a run that failed or that nothing could be said of.

    * `forward`, `backward`: torch's operators, as in `difftest.judge.reached.Reached`.
    * `entries`, `differentiated`: the operators of a program, by their names in the operator table; all of
      them, and those through which a gradient went.
    * `rules`, `lowered`: as in `Reached`.
    * `parts`: as `difftest.cases.parts` has them, building blocks and features of training among them.
    """

    forward: ByEvenness = {}
    backward: ByEvenness = {}
    entries: ByEvenness = {}
    differentiated: ByEvenness = {}
    rules: Names = ()
    lowered: Names = ()
    parts: Mapping[str, Names] = {}
