"""The checks, one file each: what every candidate run must satisfy, as functions that yield divergences.

To add a check, add a file here that satisfies `Check`; there is no list to extend. Its name, without `.py`,
is the name of its divergences and part of their fingerprints.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, Protocol, TypeAlias

from difftest.cases.case import Case
from difftest.ground import plugins
from difftest.judge.divergence import Divergence
from difftest.judge.measured import MeasuredRun
from difftest.judge.outcome import Symptom
from difftest.judge.spoiled import Damage
from difftest.judge.stage import Stage

ScriptKind: TypeAlias = Literal["numbers", "nonfinite", "replicas", "shape", "raises", "crash", "hang"]
"""How a reproducer shows a divergence, see `reports.reproducer.script`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What the core must know of a check.

    * `uses_numbers`: it needs values within the range of the dtype, and is ignored where they leave it.
    * `compares_ranks`: it reports ranks that disagree; the nature of other mismatches in that step then says
      so.
    * `sees_sizes`: it notices a tensor with more or fewer elements, as other values make of some operators.
    * `takes_two_runs`: it needs a second run of the same case on the same backend.
    * `run_failed`: its divergences mean that the run did not finish.
    * `lacks_capability`: its divergences mean, for a program, that the framework lacks an operator on its
      device.
    * `scripts`: how a reproducer script shows its divergences, by symptom; empty where no script can.
    * `places`: the stage and name of the tensors of a case that it compares, each by itself; None where it
      compares something else.
    * `damage`: what a campaign does to a copy of a right run to see that the check reports it
      (`difftest.judge.canary`); None where it does nothing.
    """

    uses_numbers: bool = False
    compares_ranks: bool = False
    sees_sizes: bool = False
    takes_two_runs: bool = False
    run_failed: bool = False
    lacks_capability: bool = False
    scripts: Mapping[Symptom, ScriptKind] = field(default_factory=dict)
    places: Callable[[Case], Iterable[tuple[Stage, str]]] | None = None
    damage: Damage | None = None


class Check(Protocol):
    """What a file in this folder declares."""

    ORDER: int
    """Settles which of several divergences at one step and stage comes first: lower is nearer to a cause."""

    TRAITS: Traits

    def check(self, run: MeasuredRun) -> Iterable[Divergence]:
        """The divergences of one run from the oracle's, in any order."""


def load(name: str) -> Check:
    """The check called `name`; `UsageError` when there is none."""
    check: Check = plugins.load(__name__, name)
    return check


@cache
def load_all() -> Mapping[str, Check]:
    """All checks by name, in the order of their `ORDER`, then by name."""
    checks = {name: load(name) for name in plugins.names(__name__)}
    return dict(sorted(checks.items(), key=lambda item: item[1].ORDER))
