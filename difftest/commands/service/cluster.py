"""Where a command's runs are executed: a Ray cluster, its pool of workers, and the backends there."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from difftest.campaign.campaign import ORACLE, BackendTraits, Campaign, Execute
from difftest.commands.service.interruption import interruptible
from difftest.records.corpus import Corpus

if TYPE_CHECKING:
    from workers.backends import Backend
    from workers.cluster.dispatch import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster that has been joined. `execute` may be called from up to `workers` threads at a time."""

    backends: "Mapping[str, Backend]"
    pool: "Pool"
    workers: int

    @property
    def execute(self) -> Execute:
        """Runs a case on the next free worker."""
        return self.pool.execute

    def campaign(
        self,
        name: str,
        corpus: Corpus,
        *,
        backends: Mapping[str, BackendTraits] | None = None,
        twice_every: int = 0,
    ) -> Campaign:
        """A campaign that runs here, on `backends` or else on all of the cluster's."""
        return Campaign(
            name=name,
            backends=self.backends if backends is None else backends,
            execute=self.execute,
            execute_group=self.pool.execute_group,
            corpus=corpus,
            workers=self.workers,
            capacity=self.pool.capacity,
            twice_every=twice_every,
        )

    def execute_within(self, deadline: float) -> Execute:
        """As `execute`, but each run ends after `deadline` seconds."""
        return self.pool.within(deadline).execute


@contextmanager
def on_cluster(
    backends: "Mapping[str, Backend]",
    *,
    workers: int | None,
    address: str | None = None,
    required: Iterable[str] | None = None,
    deadline: float | None = None,
) -> Iterator[Cluster]:
    """Joins the Ray cluster at `address`; if None, the one whose job this is, or one started on this machine.

    `workers` is the number of runs at a time; None means the cluster's CPUs.
    `required` are the backends whose packages the workers must have: by default the oracle and all
    `backends`. A run ends after `deadline` seconds, by default the workers' own. `InfrastructureError` when
    there is no cluster, or a required package is missing. A signal that interrupts the command ends all runs
    with a `StoppedError`, and so does the end of Ray.
    """
    from workers.cluster import connection, dispatch, start
    from workers.deadlines import DEADLINE_SECONDS

    place = f"joins the Ray cluster at {address}" if address else "starts or joins Ray"
    click.echo(f"{place} ...", err=True)
    with start.cluster(address, workers) as count, interruptible(connection.current().end):
        pool = dispatch.Pool(
            count, deadline=DEADLINE_SECONDS if deadline is None else deadline, grows=workers is None
        )
        for name in (ORACLE, *backends) if required is None else required:
            pool.require(name)
        yield Cluster(backends=backends, pool=pool, workers=count)
