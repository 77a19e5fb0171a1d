"""difftest from Python: `difftest.run` is the command `difftest run`, `difftest.load` reads what it left."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from difftest.cases.case import Case
from difftest.findings.ledger import LEDGER_FILE
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.ask.own_model import describe_model
from difftest.jobs.ask.request import TWICE_EVERY, CampaignRequest
from difftest.jobs.ask.targets import read_corpus
from difftest.jobs.campaign.run import run_campaign
from difftest.jobs.campaign.storage import opened
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding

__all__ = ["InfrastructureError", "Result", "UsageError", "load", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A campaign's folder and the findings in it, by fingerprint, sorted.

    Beside the corpus the folder has the table of all runs, `table.parquet` (docs/table.md).
    """

    folder: Path
    findings: tuple[Finding, ...]
    corpus: Corpus

    def case(self, finding: Finding) -> Case:
        """The simplest case that shows a finding."""
        return self.corpus.simplest(finding.fingerprint)


def run(  # noqa: PLR0913  the options of the command
    *,
    out: Path | str,
    model: str | None = None,
    steps: int | None = None,
    convergence: bool = False,
    seed: int = 0,
    cases: int | None = None,
    budget: float | None = None,
    paths: Sequence[str] = (),
    backends: Sequence[str] = (),
    max_world_size: int = 8,
    inputs: int = 1,
    workers: int | None = None,
    address: str | None = None,
    twice_every: int = TWICE_EVERY,
    fresh: bool = False,
) -> Result:
    """Runs a campaign, or continues it, as `difftest run` with these options, and returns its findings.

    `model` is the source of a model of yours, such as `model.py:build`: its cases have `steps`, and
    `convergence` compares whether it learns. `budget` is in seconds, `inputs` a number for each case.

    `difftest.UsageError` for wrong arguments; `InfrastructureError` where too little was compared.
    """
    request = CampaignRequest(
        out=Path(out),
        ledger=LEDGER_FILE,
        fail_on=("never",),
        seed=seed,
        model=describe_model(model, max_world_size, steps=steps, convergence=convergence),
        cases=cases,
        budget=budget,
        paths=tuple(paths),
        backends=tuple(backends),
        max_world_size=max_world_size,
        inputs=inputs,
        workers=workers,
        address=address,
        twice_every=twice_every,
        fresh=fresh,
    )
    with opened(request.out) as output:
        run_campaign(request, output)
    return load(out)


def load(folder: Path | str) -> Result:
    """What a campaign left in its folder; `difftest.UsageError` where there is none."""
    corpus, _ = read_corpus(Path(folder))
    findings = tuple(corpus.finding(name) for name in sorted(corpus.fingerprints()))
    return Result(folder=Path(folder), findings=findings, corpus=corpus)
