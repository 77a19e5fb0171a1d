"""The null campaign of parallelism as it is used, on one core and without Ray.

python -m tools.null_of_forms OUT SECONDS SEED RANKS BACKENDS [LEAST]

Each case of the paths in turn runs as in `difftest selftest --null`, on a backend of either side, and one in
four as a legal variant too. What differs is compared again with more noise. With LEAST only such cases run of
which something was compared fewer than LEAST times on a side. Every case is a line of OUT/null.jsonl, so that
the same command goes on where it was cut off. Its runs are lines of a corpus, which `difftest coverage OUT`
counts. In the end, or with 0 SECONDS, the summary is printed.
"""

import dataclasses
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

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
from generators.cases import case_at
from workers.backends import candidates
from workers.isolate import sandbox

PATHS = ("wrappers", "regions", "pipelines", "experts", "states", "shards", "replicated", "context_parallel")
PATHS += ("learned_collectives", "listed_collectives", "collective_layouts", "several_meshes", "data_tensor")

VARY_EVERY = 4

MOST_TRIES = 2
"""After so many times LEAST cases with something, no more are sought: its runs fail."""


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


def seldom(rows: Iterable[Mapping[str, Any]], case: Case, sides: Iterable[str], least: int) -> bool:
    """Whether something that the case has was compared too seldom on one of the sides.

    What was tried in vain is not.
    """
    tried, compared = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for row in rows:
        tried.update((side, one) for side in row["sides"] for one in row["things"])
        compared.update((side, one) for side in row["compared"] for one in row["things"])
    places = [(side, one) for side in sides for one in things(case)]
    return any(compared[at] < least and tried[at] < MOST_TRIES * least for at in places)


@dataclass(frozen=True, kw_only=True)
class Campaigning:
    """A null campaign, and where its lines are."""

    file: Path
    seed: int
    ranks: int
    least: int
    runs: Runs

    def check(self, end: float) -> None:
        """Checks cases from the first number on that has no line, until the time is over."""
        backends, rows = self.runs.campaign.backends, lines(self.file)
        null = NullCampaign(
            execute=self.runs.execute, backends=backends, ledger=read_ledger(), vary_every=VARY_EVERY
        )
        for number in count(max((row["number"] + 1 for row in rows if row["seed"] == self.seed), default=0)):
            path = PATHS[number % len(PATHS)]
            case = case_at(self.seed, number, paths=(path,), max_world_size=self.ranks)
            sides = sorted({one.SIDE for one in backends.values() if not one.unsupported(case)})
            if time.monotonic() > end:
                return
            if self.least and not seldom(rows, case, sides, self.least):
                continue
            check = null.check((number, case))
            row = {"seed": self.seed, "number": number, "case": case.id, "things": things(case)}
            row |= {"sides": sides, "compared": self.runs.record(number, case), "unchecked": check.unchecked}
            rows.append({**row, "rows": [dataclasses.asdict(one) for one in check.rows]})
            with self.file.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")


def summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What a null campaign says, and how many cases of each path were checked."""
    checked = [row for row in rows if row["rows"]]
    checks = [CorrectRun(**own) for row in checked for own in row["rows"]]
    return {
        "by path": Counter(row["things"][0] for row in checked),
        **null_summary(checks, (), [row["unchecked"] for row in rows if row["unchecked"]]),
    }


def main() -> None:
    """Checks cases until the time is over."""
    out, seconds, seed, ranks, backends, least = (*sys.argv[1:], "0")[:6]
    end, file = time.monotonic() + float(seconds), Path(out, "null.jsonl")
    corpus = Corpus(Path(out, CORPUS))
    corpus.prepare()
    campaign = Campaign(
        name=f"null-{seed}",
        backends=candidates(tuple(backends.split(","))),
        corpus=corpus,
        execute=lambda case, name, options: sandbox.run(case, name, options=options),
    )
    runs = Runs(campaign=campaign)
    Campaigning(file=file, seed=int(seed), ranks=int(ranks), least=int(least), runs=runs).check(end)
    print(json.dumps(summary(lines(file)), indent=1))


if __name__ == "__main__":
    main()
