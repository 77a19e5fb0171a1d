"""Planted defects: real faults put into a real worker, each with the blame it must get. The service measures itself by them.

A defect is a `Fault` in the `FAULTS` of a file here: which backends and cases can show it, and how a joined session is spoiled. It is
named to a child process by the environment variable `DIFFTEST_FAULT`; no case and no file from elsewhere can name one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from difftest import plugins
from difftest.cases.case import Case

if TYPE_CHECKING:
    from workers.training.session import Session

VARIABLE = "DIFFTEST_FAULT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One planted defect.

    `backends` are those it can be planted into, `reaches(case)` says whether a case can show it. `blame` is how the verdict
    must end: `sharding fault` (one device is right) or `backend fault` (one device is wrong too). `plant(session, case, rank)`
    gives the spoiled session. With fewer than `least_cards` GPUs no generated case can show it: then it is planted only where it is named.
    """

    name: str
    about: str
    backends: tuple[str, ...]
    blame: str
    reaches: Callable[[Case], bool]
    plant: "Callable[[Session, Case, int], Session]"
    least_cards: int = 0


SHARDING = "sharding fault"
BACKEND = "backend fault"


@cache
def all_faults() -> Mapping[str, Fault]:
    """Every planted defect by name."""
    found = [fault for name in plugins.names(__name__) for fault in plugins.load(__name__, name).FAULTS]
    return {fault.name: fault for fault in found}


def spoil(session: "Session", case: Case, rank: int, name: str | None) -> "Session":
    """The session with the defect called `name` planted; unchanged without a name."""
    return all_faults()[name].plant(session, case, rank) if name else session
