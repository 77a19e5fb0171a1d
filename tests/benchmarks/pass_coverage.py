"""What choosing cases by what XLA's passes do gives: distinct causes per core hour, on the same candidates.

    python tests/benchmarks/pass_coverage.py record one.jsonl --seed 57
    python tests/benchmarks/pass_coverage.py record two.jsonl --seed 58
    python tests/benchmarks/pass_coverage.py compare one.jsonl two.jsonl

`record` runs every candidate of each case, so that all choices are compared on the same runs. XLA dumps the
module after every pass in each of them, which takes time with any choice. `compare` learns from each file
what leads to what, as `generators.signatures` does, and chooses in the others.
"""

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, groupby
from pathlib import Path
from statistics import mean, pstdev
from typing import NamedTuple, TypeAlias

import click
import msgspec

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from benchmarks._exercised import exercised  # noqa: E402  found on the path above
from benchmarks._measured_runs import MeasuredRuns  # noqa: E402
from difftest.campaign.campaign import Campaign  # noqa: E402
from difftest.campaign.memo import oracle_once  # noqa: E402
from difftest.cases.case import Case  # noqa: E402
from difftest.findings.ledger import read_ledger  # noqa: E402
from difftest.ground.clock import utc_today  # noqa: E402
from difftest.jobs.watch.case_states import case_state  # noqa: E402
from difftest.passes.snapshots import FLAGS, read_dumps  # noqa: E402
from difftest.records.corpus import Corpus  # noqa: E402
from generators.cases import pool_at, spelling_stream  # noqa: E402
from generators.explore import Walk, features  # noqa: E402
from generators.options import spelled  # noqa: E402
from generators.signatures import Signature, expected, signatures  # noqa: E402
from workers import backends  # noqa: E402

HOUR, MINUTE = 3600.0, 60.0
PATHS = "data_parallel,tensor_parallel,data_tensor,fully_sharded,hybrid_sharded,blocks,modules"
"""Paths whose cases XLA partitions, and whose cases are drawn: a schedule has no candidates."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate of the case `index`: what XLA's passes did with it, which causes it shows, its cost."""

    index: int
    case: Case
    things: tuple[str, ...]
    causes: tuple[str, ...]
    seconds: float


Expects: TypeAlias = Callable[[Case], frozenset[Signature]]


@click.group()
def main() -> None:
    """Records candidates, and compares choices among them."""


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--seed", default=57, show_default=True)
@click.option("--minutes", default=10.0, show_default=True, help="How many minutes of a core.")
@click.option("--paths", default=PATHS, show_default=True)
@click.option("--backends", "named", default="xla_spmd", show_default=True)
def record(file: Path, seed: int, minutes: float, paths: str, named: str) -> None:
    """Runs candidates of the cases of a seed; the same command goes on with the case after the last."""
    there = [ran.index for ran in read(file)] if file.exists() else []
    first = max(there) + 1 if there else 0
    with tempfile.TemporaryDirectory() as folder, file.open("ab") as out:
        for ran in _run(
            seed, first, minutes * MINUTE, paths.split(","), tuple(named.split(",")), Path(folder)
        ):
            out.write(msgspec.json.encode(ran) + b"\n")
            out.flush()


def _run(  # noqa: PLR0913, PLR0917  what the command was given
    seed: int, first: int, budget: float, paths: Sequence[str], named: tuple[str, ...], folder: Path
) -> Iterator[Ran]:
    dump, runs = folder / "dump", MeasuredRuns()
    flags = " ".join(f"--{name}={value}" for name, value in {"xla_dump_to": str(dump), **FLAGS}.items())
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    with runs.installed():
        corpus = Corpus(folder / "corpus")
        corpus.prepare()
        campaign = Campaign(
            name="benchmark",
            backends=backends.candidates(named),
            execute=runs.execute,
            execute_group=runs.execute_group,
            corpus=corpus,
        )
        used = 0.0
        for index in count(first):
            for case in pool_at(seed, index, path=paths[index % len(paths)]):
                before, shown = runs.used(), oracle_once(campaign)
                causes = tuple(_causes(shown, spelled(case, spelling_stream(seed, index)), named))
                seconds = runs.used() - before
                things = {thing for each in read_dumps(dump) for thing in exercised(each)}
                shutil.rmtree(dump, ignore_errors=True)
                yield Ran(
                    index=index, case=case, things=tuple(sorted(things)), causes=causes, seconds=seconds
                )
                used += seconds
            if used > budget:
                return


def _causes(campaign: Campaign, case: Case, named: Iterable[str]) -> Iterator[str]:
    """What the ledger calls what a case shows on each backend, or its fingerprint."""
    for backend in named:
        state = case_state(campaign, case, backend)
        if state.divergence is not None:
            entry = read_ledger().entry(state.divergence, case, today=utc_today())
            yield entry.upstream if entry else state.shown


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--halves", default=50, show_default=True, help="How many random halves of the cases to try.")
def compare(files: tuple[Path, ...], halves: int) -> None:
    """Prints what each choice gives in a random half of the cases of a file, on average.

    After the plus-minus sign comes the standard deviation of the difference from the choice as it is now.
    """
    every = {file: read(file) for file in files}
    given: dict[str, list[Given]] = {}
    for file, own in every.items():
        pools = [list(pool) for _, pool in groupby(own, key=lambda ran: ran.index)]
        parts = [random.Random(half).sample(pools, len(pools) // 2) for half in range(halves)]  # noqa: S311  not secret
        others = [ran for name, each in every.items() if name != file for ran in each]
        for name, expects in choices(own, others).items():
            given.setdefault(name, []).extend(_given(chosen(part, expects)) for part in parts)
    click.echo("| choice | cases | core seconds | things of passes | distinct causes | per core hour |")
    click.echo("|---|---|---|---|---|---|")
    for name, each in given.items():
        spread = pstdev(one.hourly - now.hourly for one, now in zip(each, given[NOW], strict=True))
        means = [mean(values) for values in zip(*each, strict=True)]
        cells = " | ".join(f"{one:.1f}" for one in means)
        click.echo(f"| {name} | {cells} | {mean(one.hourly for one in each):.0f} ± {spread:.0f} |")


class Given(NamedTuple):
    """What some cases gave."""

    cases: int
    seconds: float
    things: int
    causes: int

    @property
    def hourly(self) -> float:
        """Distinct causes per core hour."""
        return self.causes / self.seconds * HOUR


def _given(cases: Sequence[Ran]) -> Given:
    things, causes = ({one for ran in cases for one in getattr(ran, name)} for name in ("things", "causes"))
    return Given(len(cases), sum(ran.seconds for ran in cases), len(things), len(causes))


NOW = "operators and rules, as now"


def choices(own: Sequence[Ran], others: Sequence[Ran]) -> Mapping[str, Expects | None]:
    """What each choice expects of a case of `own`; None chooses the first candidate."""
    passes = signatures((features(ran.case), ran.things) for ran in others)
    required = [(frozenset(one.features), one) for one in passes]

    def by_passes(case: Case) -> frozenset[Signature]:
        there = features(case)
        return frozenset(one for wanted, one in required if wanted <= there)

    of_passes = {ran.case.id: by_passes(ran.case) for ran in own}
    of_operators = {ran.case.id: expected(features(ran.case)) for ran in own}
    things = {ran.case.id: _each(ran.things) for ran in own}
    causes = {ran.case.id: _each(ran.causes) for ran in own}
    return {
        "the first candidate": None,
        "pairs of features": lambda _case: frozenset(),
        NOW: lambda case: of_operators[case.id],
        "passes": lambda case: of_passes[case.id],
        "operators, rules and passes": lambda case: of_operators[case.id] | of_passes[case.id],
        "what passes really did, which nobody knows before": lambda case: things[case.id],
        "causes, which nobody knows before": lambda case: causes[case.id],
    }


def _each(names: Iterable[str]) -> frozenset[Signature]:
    return frozenset(Signature((name,), 1) for name in names)


def chosen(pools: Iterable[Sequence[Ran]], expects: Expects | None) -> list[Ran]:
    """The candidate of each case that the explorer runs."""
    walk, by_case = Walk(expects or (lambda _case: frozenset())), dict[str, Ran]()
    for pool in pools:
        by_case |= {ran.case.id: ran for ran in pool}
        walk.choose([ran.case for ran in (pool if expects else pool[:1])])
    return [by_case[case.id] for case in walk.chosen]


def read(file: Path) -> list[Ran]:
    """The lines of a file."""
    return [msgspec.json.decode(line, type=Ran) for line in file.read_bytes().splitlines()]


if __name__ == "__main__":
    main()
