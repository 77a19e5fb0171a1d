"""The null campaign of parallelism as it is used, on one core and without Ray.

python -m tools.null_of_forms OUT SECONDS SEED RANKS BACKENDS [LEAST] [--paths A,B] [--forms "A;B"]

Each case of the paths in turn runs as in `difftest selftest --null`, on a backend of either side, and one in
four as a legal variant too. What differs is compared again with more noise. With LEAST the candidate runs
that has most of what was compared fewer than LEAST times on a side, and none where no candidate has any.
With --forms, these paths, features and options alone are sought: `pipeline ZBVZeroBubble`, `mesh pp x tp`.
Every case is a line of OUT/null.jsonl, so that the same command goes on where it was cut off. Its runs are
lines of a corpus, which `difftest coverage OUT` counts. In the end, or with 0 SECONDS, the summary is
printed.
"""

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import click

from difftest.campaign.campaign import ORACLE, BackendRun, Campaign, refused
from difftest.campaign.case_run import CaseResult
from difftest.campaign.recording import observation
from difftest.cases.case import Case
from difftest.cases.parts import FEATURES, OPTIONS, parts
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_now
from difftest.jobs.proof.correct_runs import CorrectRun, null_summary
from difftest.jobs.proof.null_campaign import NullCampaign
from difftest.judge.comparator import compare
from difftest.judge.outcome import Outcome
from difftest.records.corpus import CORPUS, Corpus
from generators.cases import case_at, pool_at, spelling_stream
from generators.options import spelled
from workers.backends import candidates
from workers.isolate import sandbox

PATHS = ("wrappers", "regions", "pipelines", "experts", "states", "shards", "replicated", "context_parallel")
PATHS += ("learned_collectives", "listed_collectives", "collective_layouts", "several_meshes", "data_tensor")
PATHS += ("own_steps", "partial_operands", "strided_operands", "blocks", "tensor_parallel")
PATHS += ("compositions", "unused_results")

VARY_EVERY = 4


@dataclass(kw_only=True)
class Runs:
    """The plain runs of one case, as they are made."""

    campaign: Campaign
    made: dict[str, BackendRun] = field(default_factory=dict)

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """One run."""
        started, clock = utc_now().isoformat(), time.monotonic()
        outcome = self.campaign.execute(case, backend, options)
        if not options and not refused(outcome):
            seconds = time.monotonic() - clock
            run = BackendRun(backend=backend, outcome=outcome, started=started, seconds=seconds)
            self.made.setdefault(backend, run)
        return outcome

    def record(self, number: int, case: Case) -> list[str]:
        """Adds the runs to the corpus as a campaign does, and forgets them: the sides that were compared."""
        made, self.made = self.made, {}
        compared = {
            name: compare(case, name, self.campaign.backends[name].SIDE, made[ORACLE].outcome, run.outcome)
            for name, run in made.items()
            if name != ORACLE
        }
        result = CaseResult(index=number, case=case, runs=made, comparisons=compared)
        seen = [observation(self.campaign, result, run) for run in made.values()]
        if seen:
            self.campaign.corpus.observe(*seen)
        return [one.side for one in seen if one.covered.forward or one.covered.parts]


def things(case: Case) -> list[str]:
    """What LEAST counts: the path, and the features and options that the case has."""
    held = parts(case)
    return [case.path, *held.get(FEATURES, ()), *held.get(OPTIONS, ())]


def lines(file: Path) -> list[dict[str, Any]]:
    """Those that are there."""
    return [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []


@dataclass(kw_only=True)
class Reached:
    """How often each thing was tried and compared on each side, and what of it is sought.

    Everything is, where `sought` names nothing. After `tries` times `least` cases with something no more are
    sought: its runs fail.
    """

    least: int
    tries: int
    sought: frozenset[str]
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    compared: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, row: Mapping[str, Any]) -> None:
        """Counts one line."""
        self.tried.update((side, one) for side in row["sides"] for one in row["things"])
        self.compared.update((side, one) for side in row["compared"] for one in row["things"])

    def seldom(self, case: Case, sides: Iterable[str]) -> int:
        """How many things of the case were compared too seldom, by side, but for what was tried in vain."""
        held = [one for one in things(case) if not self.sought or one in self.sought]
        places = [(side, one) for side in sides for one in held]
        most = self.tries * self.least
        return sum(self.compared[at] < self.least and self.tried[at] < most for at in places)


@dataclass(frozen=True, kw_only=True)
class Campaigning:
    """A null campaign, and where its lines are."""

    file: Path
    seed: int
    ranks: int
    paths: tuple[str, ...]
    reached: Reached
    runs: Runs

    def check(self, end: float) -> None:
        """Checks cases from the first number on that has no line, until the time is over."""
        null = NullCampaign(
            execute=self.runs.execute,
            backends=self.runs.campaign.backends,
            ledger=read_ledger(),
            vary_every=VARY_EVERY,
        )
        begin = 0
        for row in lines(self.file):
            self.reached.add(row)
            begin = max(begin, row["number"] + 1) if row["seed"] == self.seed else begin
        for number in count(begin):
            if time.monotonic() > end:
                return
            case = self._case(number)
            if case is None:
                continue
            check = null.check((number, case))
            row = {"seed": self.seed, "number": number, "case": case.id, "things": things(case)}
            row |= {"sides": self._sides(case), "compared": self.runs.record(number, case)}
            row |= {"unchecked": check.unchecked, "rows": [dataclasses.asdict(one) for one in check.rows]}
            if any(one.false for one in check.rows):
                row["json"] = case.to_json().decode()
            self.reached.add(row)
            with self.file.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def _case(self, number: int) -> Case | None:
        """The case of a number, the paths taking turns; None if it has nothing that is wanted."""
        turn, position = divmod(number, len(self.paths))
        path = self.paths[position]
        if not self.reached.least:
            return case_at(self.seed, turn, paths=(path,), max_world_size=self.ranks)
        pool = pool_at(self.seed, turn, path=path, max_world_size=self.ranks)
        candidates = [spelled(one, spelling_stream(self.seed, turn)) for one in pool]
        wanted = [self.reached.seldom(one, self._sides(one)) for one in candidates]
        return candidates[wanted.index(max(wanted))] if any(wanted) else None

    def _sides(self, case: Case) -> list[str]:
        backends = self.runs.campaign.backends.values()
        return sorted({one.SIDE for one in backends if not one.unsupported(case)})


def summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a null campaign says, and how many cases of each path were checked."""
    checked = [row for row in rows if row["rows"]]
    checks = [CorrectRun(**own) for row in checked for own in row["rows"]]
    return {
        "by path": Counter(row["things"][0] for row in checked),
        **null_summary(checks, (), [row["unchecked"] for row in rows if row["unchecked"]]),
    }


@click.command(help=__doc__)
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("seconds", type=float)
@click.argument("seed", type=int)
@click.argument("ranks", type=int)
@click.argument("backends")
@click.argument("least", type=int, default=0)
@click.option("--paths", default=",".join(PATHS), help="Of which paths cases are made.")
@click.option("--forms", default="", help="What LEAST counts; everything, if nothing is named.")
@click.option("--tries", default=2, help="After so many times LEAST cases of a form, it is not sought.")
def main(  # noqa: PLR0913 - each parameter is an argument of the command
    out: Path,
    *,
    seconds: float,
    seed: int,
    ranks: int,
    backends: str,
    least: int,
    paths: str,
    forms: str,
    tries: int,
) -> None:
    """Checks cases until the time is over."""
    end, corpus = time.monotonic() + seconds, Corpus(out / CORPUS)
    corpus.prepare()
    campaign = Campaign(
        name=f"null-{seed}",
        backends=candidates(tuple(backends.split(","))),
        corpus=corpus,
        execute=lambda case, name, options: sandbox.run(case, name, options=options),
    )
    Campaigning(
        file=out / "null.jsonl",
        seed=seed,
        ranks=ranks,
        paths=tuple(paths.split(",")),
        reached=Reached(least=least, tries=tries, sought=frozenset(filter(None, forms.split(";")))),
        runs=Runs(campaign=campaign),
    ).check(end)
    click.echo(json.dumps(summary(lines(out / "null.jsonl")), indent=1))


if __name__ == "__main__":
    main()
