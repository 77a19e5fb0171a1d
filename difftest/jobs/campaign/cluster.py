"""Where a command's runs are executed: a Ray cluster, its pool of workers, and the backends there."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from difftest.campaign.campaign import ORACLE, BackendTraits, Campaign, Execute, ExecuteGroup
from difftest.jobs.campaign.interruption import interruptible
from difftest.jobs.screen.activity import Working
from difftest.records.corpus import Corpus

if TYPE_CHECKING:
    from workers.backends import Backend
    from workers.cluster.dispatch import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster that has been joined. `execute` may be called from up to `workers` threads at a time.

    `working` counts its runs, where the command shows no progress of its own.
    """

    backends: "Mapping[str, Backend]"
    pool: "Pool"
    workers: int
    working: Working | None = None

    @property
    def execute(self) -> Execute:
        """Runs a case on the next free worker."""
        return self.working.counted(self.pool.execute) if self.working else self.pool.execute

    @property
    def execute_group(self) -> ExecuteGroup:
        """Runs cases that can share processes on the next free worker."""
        return (
            self.working.counted_group(self.pool.execute_group) if self.working else self.pool.execute_group
        )

    def campaign(
        self,
        name: str,
        corpus: Corpus,
        *,
        backends: Mapping[str, BackendTraits] | None = None,
        twice_every: int = 0,
        references: Iterable[str] = (),
    ) -> Campaign:
        """A campaign that runs here, on `backends` or else on all of the cluster's."""
        from workers.backends import following, mechanisms

        chosen = self.backends if backends is None else backends
        return Campaign(
            name=name,
            backends=chosen,
            follows=following(chosen),
            mechanisms=mechanisms(chosen),
            execute=self.execute,
            execute_group=self.execute_group,
            corpus=corpus,
            workers=self.workers,
            capacity=self.pool.capacity,
            twice_every=twice_every,
            references=frozenset(references),
        )

    def cut_at(self, end: float) -> None:
        """Cuts every run that has not ended at the time `end` (monotonic), by a `NoTimeError`."""
        from workers.cluster import connection

        connection.current().cut = end

    def execute_within(self, deadline: float) -> Execute:
        """As `execute`, but each run ends after `deadline` seconds."""
        return self.pool.within(deadline).execute


@contextmanager
def on_cluster(  # noqa: PLR0913  all but one have a default
    backends: "Mapping[str, Backend]",
    *,
    workers: int | None,
    address: str | None = None,
    required: Iterable[str] | None = None,
    deadline: float | None = None,
    working: str = "",
) -> Iterator[Cluster]:
    """Joins the Ray cluster at `address`; if None, the one whose job this is, or one started on this machine.

    `workers` is the number of runs at a time; None means the cluster's CPUs.
    `required` are the backends whose packages the workers must have: by default the oracle and all
    `backends`. A run ends after `deadline` seconds, by default the workers' own. `InfrastructureError` when
    there is no cluster, or a required package is missing. `working` is the name of a command that shows no
    progress of its own. A signal that interrupts the command ends all runs
    with a `StoppedError`, and so does the end of Ray.
    """
    from workers.cluster import connection, dispatch, start
    from workers.deadlines import DEADLINE_SECONDS

    place = f"joins the Ray cluster at {address}" if address else "starts or joins Ray"
    with ExitStack() as joined:
        with Working(place, counts=False):
            count = joined.enter_context(start.cluster(address, workers))
            joined.enter_context(interruptible(connection.current().end))
            pool = dispatch.Pool(
                count, deadline=DEADLINE_SECONDS if deadline is None else deadline, grows=workers is None
            )
            for name in (ORACLE, *backends) if required is None else required:
                pool.require(name)
        with Working(working) if working else nullcontext() as shown:
            yield Cluster(backends=backends, pool=pool, workers=count, working=shown)
