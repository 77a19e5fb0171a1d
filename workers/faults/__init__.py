"""Planted faults: real faults put into a real worker, each with the blame it must get.

The service measures itself by them. Each file here holds planted faults: functions `(session, case, rank) ->
session` that spoil a joined session, decorated with `@planted(...)`. A planted fault is called by the name of
its function. The environment variable `DIFFTEST_FAULT` names it to a child process; no case and no file from
elsewhere can name one.

A *vacuous* fault is of another kind: where it goes unnoticed, a green result proves nothing, because nothing
was compared, or not what should have been. It spoils a session too, or the work of a worker, and is decorated
with `@vacuous(...)`. No campaign with one of them may end in status 0.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from difftest.cases.case import Case
from difftest.cases.feature import has
from difftest.cases.twins import PATH as TWINS
from difftest.ground import plugins
from difftest.judge.blame import TORCH_ITSELF
from workers.gpus import gpu_count

if TYPE_CHECKING:
    from difftest.judge.outcome import Outcome
    from workers.training.session import Session

VARIABLE = "DIFFTEST_FAULT"

SHARDING, BACKEND = "sharding fault", "backend fault"
"""How a verdict must end: one device is right, or one device is wrong too."""

EVERYWHERE = ("torch_ddp", "torch_dtensor", "xla_spmd")
"""For faults of any backend: one of replicas and one of shards on torch's side, and one on XLA's."""

Plant: TypeAlias = "Callable[[Session, Case, int], Session]"
"""Spoils the session of one rank."""


Run: TypeAlias = "Callable[[Case, str], Outcome]"
"""A worker's work: runs a case on a backend, with everything else as it was requested."""

Work: TypeAlias = "Callable[[Run, Case, str], Outcome]"
"""What a spoiled worker does instead, which may call the right `Run`."""

EVERY_SIDE = "*"
"""For a fault that is planted into every side, and into the oracle."""


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
    * `paths`: the paths whose cases can show it; none for the usual ones. With paths it is planted only where
      it, or a path of its, is named.
    * `least_gpus`: with fewer GPUs than these no generated case can show it, and it is planted only where it
      is named. Without any GPU `all_faults` leaves it out.
    * `plant(session, case, rank)`: the spoiled session.
    * `twins_of`: the path of whose cases it needs the twins, where it is planted into torch in every process,
      the oracle's too; empty for all others.
    """

    name: str
    about: str
    backends: tuple[str, ...]
    blame: str
    reaches: Callable[[Case], bool]
    plant: Plant
    least_gpus: int = 0
    paths: tuple[str, ...] = ()
    twins_of: str = ""

    @property
    def in_torch(self) -> bool:
        """Whether it is planted into torch in every process."""
        return bool(self.twins_of)


def planted(  # noqa: PLR0913  the fields of a fault, by name
    *,
    about: str,
    backends: tuple[str, ...],
    blame: str,
    reaches: Callable[[Case], bool] = any_case,
    least_gpus: int = 0,
    paths: tuple[str, ...] = (),
    twins_of: str = "",
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
            paths=paths,
            twins_of=twins_of,
        )

    return decorate


RUN_PROGRAMS = ("torch_dtensor", "xla_spmd")
"""One backend of each side that runs programs."""


def of_operators(
    *, about: str, blame: str, reaches: Callable[[Case], bool], backends: tuple[str, ...] = RUN_PROGRAMS
) -> Callable[[Plant], PlantedFault]:
    """As `planted`, for a fault of a program's operators."""
    return planted(about=about, backends=backends, blame=blame, reaches=reaches, paths=("operators",))


def of_blocks(
    *, about: str, blame: str, reaches: Callable[[Case], bool], backends: tuple[str, ...] = EVERYWHERE
) -> Callable[[Plant], PlantedFault]:
    """As `planted`, for a fault of what building blocks have and generated layers have not."""
    return planted(about=about, backends=backends, blame=blame, reaches=reaches, paths=("blocks",))


def of_feature(  # noqa: PLR0913  the fields of a fault, by name
    feature: str,
    *,
    about: str,
    reaches: Callable[[Case], bool] = any_case,
    backends: tuple[str, ...] = EVERYWHERE,
    blame: str = BACKEND,
    paths: tuple[str, ...] = ("features",),
) -> Callable[[Plant], PlantedFault]:
    """As `planted`, for a fault that only the cases with one feature of training can show."""

    def with_feature(case: Case) -> bool:
        return has(case, feature) and reaches(case)

    return planted(about=about, backends=backends, blame=blame, reaches=with_feature, paths=paths)


def in_torch(
    *,
    about: str,
    reaches: Callable[[Case], bool] = any_case,
    shows: str = "definitions",
    path: str = "features",
) -> Callable[[Plant], PlantedFault]:
    """As `planted`, for a fault of torch itself on every device, which the backend `shows` shows.

    Its cases are the twins of those of `path`.
    """
    return planted(
        about=about, backends=(shows,), blame=TORCH_ITSELF, reaches=reaches, paths=(TWINS,), twins_of=path
    )


def replace_in_torch(owner: Any, name: str, value: object) -> None:  # noqa: ANN401  a module or a class
    """Puts `value` in the place of torch's for the rest of the process, which runs this case alone."""
    setattr(owner, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuousFault:
    """A planted fault with which a green result would prove nothing.

    `sides` are those that it is planted into; the oracle is a side too. `plant` spoils the session of one
    rank, `work` what a worker does with a request; a fault has one of them.
    """

    name: str
    about: str
    sides: tuple[str, ...]
    plant: "Plant | None" = None
    work: "Work | None" = None

    def planted_into(self, side: str) -> bool:
        """Whether the backends of `side` have it."""
        return side in self.sides or EVERY_SIDE in self.sides


def vacuous(*, about: str, sides: tuple[str, ...]) -> Callable[[Plant], VacuousFault]:
    """Decorates a function that spoils a session so that a green result proves nothing."""
    return lambda plant: VacuousFault(name=plant.__name__, about=about, sides=sides, plant=plant)


def vacuous_work(*, about: str, sides: tuple[str, ...]) -> Callable[[Work], VacuousFault]:
    """Decorates a function that does a worker's work so that a green result proves nothing."""
    return lambda work: VacuousFault(name=work.__name__, about=about, sides=sides, work=work)


@cache
def all_faults() -> Mapping[str, PlantedFault]:
    """The planted faults of this machine by name, in the order of the files and in them.

    `ValueError` where two have the same name.
    """
    faults = _named(PlantedFault)
    return {name: fault for name, fault in faults.items() if not fault.least_gpus or gpu_count()}


@cache
def vacuous_faults() -> Mapping[str, VacuousFault]:
    """The vacuous faults by name, in the order of the files and in them.

    `ValueError` where two have the same name, or one has that of a planted fault.
    """
    faults = _named(VacuousFault)
    _require_new(faults, all_faults())
    return faults


F = TypeVar("F", PlantedFault, VacuousFault)


def _named(kind: type[F]) -> dict[str, F]:
    faults: dict[str, F] = {}
    for module in plugins.names(__name__):
        for fault in vars(plugins.load(__name__, module)).values():
            if isinstance(fault, kind):
                _require_new([fault.name], faults)
                faults[fault.name] = fault
    return faults


def _require_new(names: Iterable[str], in_use: Container[str]) -> None:
    for name in names:
        if name in in_use:
            msg = f"two planted faults are called {name!r}; a name must be given once"
            raise ValueError(msg)


def spoil(session: "Session", case: Case, rank: int, name: str | None) -> "Session":
    """The session with the planted fault called `name`; the same session without a name."""
    if not name:
        return session
    plant = vacuous_faults()[name].plant if name in vacuous_faults() else all_faults()[name].plant
    return plant(session, case, rank) if plant else session


def worked(run: Run, case: Case, backend: str, name: str | None) -> "Outcome":
    """What a worker with the planted fault called `name` makes of a request; `run` does the right work."""
    work = vacuous_faults()[name].work if name and name in vacuous_faults() else None
    return work(run, case, backend) if work else run(case, backend)
