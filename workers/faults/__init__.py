"""Planted faults: real faults put into a real worker, each with the blame it must get.

The service measures itself by them. Each file here holds planted faults: functions `(session, case, rank) ->
session` that spoil a joined session, decorated with `@planted(...)`. A planted fault is called by the name of
its function. The environment variable `DIFFTEST_FAULT` names it to a child process; no case and no file from
elsewhere can name one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from difftest import plugins
from difftest.cases.case import Case
from workers.gpus import gpu_count

if TYPE_CHECKING:
    from workers.training.session import Session

VARIABLE = "DIFFTEST_FAULT"

SHARDING, BACKEND = "sharding fault", "backend fault"
"""How a verdict must end: one device is right, or one device is wrong too."""

EVERYWHERE = ("torch_ddp", "torch_dtensor", "xla_spmd")
"""For faults of any backend: one of replicas and one of shards on torch's side, and one on XLA's."""

Plant: TypeAlias = "Callable[[Session, Case, int], Session]"
"""Spoils the session of one rank."""


def any_case(_case: Case) -> bool:
    """Every case can show it."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedFault:
    """A planted fault.

    * `name`: what commands, reports and `DIFFTEST_FAULT` call it.
    * `about`: what is wrong, in a few words.
    * `backends`: those that it can be planted into.
    * `blame`: `SHARDING` or `BACKEND`.
    * `reaches(case)`: whether a case can show it.
    * `least_gpus`: with fewer GPUs than these no generated case can show it, and it is planted only where it
      is named. Without any GPU `all_faults` leaves it out.
    * `plant(session, case, rank)`: the spoiled session.
    """

    name: str
    about: str
    backends: tuple[str, ...]
    blame: str
    reaches: Callable[[Case], bool]
    plant: Plant
    least_gpus: int = 0


def planted(
    *,
    about: str,
    backends: tuple[str, ...],
    blame: str,
    reaches: Callable[[Case], bool] = any_case,
    least_gpus: int = 0,
) -> Callable[[Plant], PlantedFault]:
    """Decorates a function that spoils a session: the result is a planted fault with the function's name."""

    def decorate(plant: Plant) -> PlantedFault:
        return PlantedFault(
            name=plant.__name__,
            about=about,
            backends=backends,
            blame=blame,
            reaches=reaches,
            plant=plant,
            least_gpus=least_gpus,
        )

    return decorate


@cache
def all_faults() -> Mapping[str, PlantedFault]:
    """The planted faults of this machine by name, in the order of the files and in them.

    `ValueError` where two have the same name.
    """
    faults: dict[str, PlantedFault] = {}
    for module in plugins.names(__name__):
        for fault in vars(plugins.load(__name__, module)).values():
            if not isinstance(fault, PlantedFault) or (fault.least_gpus and not gpu_count()):
                continue
            if fault.name in faults:
                msg = f"two planted faults are called {fault.name!r}; a name must be given once"
                raise ValueError(msg)
            faults[fault.name] = fault
    return faults


def spoil(session: "Session", case: Case, rank: int, name: str | None) -> "Session":
    """The session with the planted fault called `name`; the same session without a name."""
    return all_faults()[name].plant(session, case, rank) if name else session
