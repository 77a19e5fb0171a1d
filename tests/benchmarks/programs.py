"""How many operator programs an hour are run and compared, and what takes the time.

    python tests/benchmarks/programs.py --cases 60 --backends torch_dtensor,xla_spmd

All is real: generated programs, their runs in processes, the noise floor, the verdicts, the evidence for
findings and a corpus on disk. One run goes on at a time, without Ray, so that the processor time of each can
be measured, which other programs on the machine change little. From it follows how many programs an hour two
cores make when both are busy. The target is 10 000. It takes a minute or two for 60 programs.
"""

import itertools
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from real_runs import together  # noqa: E402

from benchmarks._processor_time import processor_seconds  # noqa: E402  found on the path above
from difftest.campaign.campaign import ORACLE, Campaign  # noqa: E402
from difftest.campaign.run import run  # noqa: E402
from difftest.cases.case import Case  # noqa: E402
from difftest.ground.errors import InfrastructureError  # noqa: E402
from difftest.judge.outcome import Failure, Outcome  # noqa: E402
from difftest.records.corpus import Corpus  # noqa: E402
from generators.cases import case_at  # noqa: E402
from workers.backends import candidates, load  # noqa: E402
from workers.isolate import sandbox  # noqa: E402
from workers.isolate.zygotes import zygote_with  # noqa: E402

CORES, HOUR_SECONDS = 2, 3600.0
PATHS = ("operators",)


@dataclass(slots=True)
class Share:
    """What the runs of one kind took: how many there were, how many failed, and their seconds."""

    runs: int = 0
    failures: int = 0
    wall: float = 0.0
    cpu: float = 0.0


@dataclass(slots=True)
class Workers:
    """Executes one run at a time, and measures it. `shares` are by backend and by how the run was made."""

    shares: dict[tuple[str, str], Share] = field(default_factory=lambda: defaultdict(Share))

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """A run alone: the evidence for a finding, or the oracle with more samples."""
        how = "alone, more samples" if options else "alone"
        with self._measured(backend, how) as share:
            outcome = sandbox.run(case, backend, options=options)
            share.runs += 1
            share.failures += isinstance(outcome, Failure)
        return outcome

    def execute_group(
        self, cases: Sequence[Case], backend: str, options: Mapping[str, str]
    ) -> list[Outcome | InfrastructureError]:
        """Runs in shared processes."""
        with self._measured(backend, "together") as share:
            outcomes = together(cases, backend, options)
            share.runs += len(cases)
            share.failures += sum(not hasattr(outcome, "steps") for outcome in outcomes)
        return outcomes

    @contextmanager
    def _measured(self, backend: str, how: str) -> Iterator[Share]:
        zygote = zygote_with(load(backend).PRELOAD)
        zygote.warm()
        share, began, before = self.shares[backend, how], time.monotonic(), processor_seconds(zygote.pid)
        yield share
        share.wall += time.monotonic() - began
        share.cpu += processor_seconds(zygote.pid) - before


@click.command()
@click.option("--cases", default=60, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--backends", default="torch_dtensor,xla_spmd", show_default=True)
@click.option("--ranks", default=4, show_default=True)
def main(cases: int, seed: int, backends: str, ranks: int) -> None:
    """Runs a campaign of programs and prints what it took."""
    chosen, workers = candidates(tuple(backends.split(","))), Workers()
    for name in (ORACLE, *chosen):
        zygote_with(load(name).PRELOAD).warm()
    began, own = time.monotonic(), time.process_time()
    drawn = ((index, case_at(seed, index, paths=PATHS, max_world_size=ranks)) for index in itertools.count())
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder))
        corpus.prepare()
        campaign = Campaign(
            name="programs",
            backends=chosen,
            execute=workers.execute,
            execute_group=workers.execute_group,
            corpus=corpus,
        )
        done = list(run(campaign, itertools.islice(drawn, cases)))
    wall, own = time.monotonic() - began, time.process_time() - own
    findings = sum(len(one.new) for one in done)
    cpu = own + sum(share.cpu for share in workers.shares.values())
    click.echo(
        f"{cases} programs, {findings} findings: {wall:.0f} s with one run at a time and load "
        f"{os.getloadavg()[0]:.0f}; {cpu / cases:.3f} s of processor time each"
    )
    click.echo(f"that is {CORES * HOUR_SECONDS * cases / cpu:.0f} programs an hour on {CORES} cores")
    for (backend, how), share in sorted(workers.shares.items()):
        click.echo(
            f"  {backend}, {how}: {share.runs} runs, {share.failures} failures; "
            f"{share.cpu / share.runs:.3f} s of processor time each, {share.cpu / cases:.3f} a program"
        )
    click.echo(f"  generation, comparison and records: {own / cases:.3f} s a program")


if __name__ == "__main__":
    main()
