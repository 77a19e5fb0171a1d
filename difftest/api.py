"""difftest from Python: `difftest.run` is the command `difftest run`, `difftest.load` reads what it left."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.findings.ledger import LEDGER_FILE
from difftest.ground.counted import counted
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.ask.options import listed
from difftest.jobs.ask.own_model import describe_model
from difftest.jobs.ask.request import TWICE_EVERY, CampaignRequest
from difftest.jobs.ask.targets import read_corpus
from difftest.jobs.campaign.run import run_campaign
from difftest.jobs.campaign.storage import opened
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding

if TYPE_CHECKING:
    from reports.formats.parquet import Table

COLUMNS = ("finding", "backend", "blame", "cause", "what is wrong")

__all__ = ["InfrastructureError", "Result", "UsageError", "load", "run"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
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

    def table(self) -> "Table":
        """The table of all runs, a row for each tensor of each (docs/table.md).

        `difftest.UsageError` where the campaign has ended before it was written.
        """
        from reports.formats.parquet import read  # noqa: PLC0415  it imports pandas

        return read(self.folder)

    def __repr__(self) -> str:
        new = sum(not finding.upstream for finding in self.findings)
        every = counted(len(self.findings), "finding")
        return f"<difftest.Result of {str(self.folder)!r}: {every}, {new} of them unknown>"

    def _repr_html_(self) -> str:
        """A notebook's view: a row for each finding."""
        if not self.findings:
            return f"<p>{escape(repr(self))}</p>"
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in self._cells(finding)) + "</tr>"
            for finding in self.findings
        )
        head = "".join(f"<th>{name}</th>" for name in COLUMNS)
        return f"<p>{escape(repr(self))}</p><table><tr>{head}</tr>{rows}</table>"

    def _cells(self, finding: Finding) -> tuple[str, ...]:
        """What `COLUMNS` name."""
        first = finding.divergence
        return finding.fingerprint, first.backend, finding.blame, finding.upstream or "unknown", first.detail


def run(  # noqa: PLR0913  the options of the command
    *,
    out: Path | str,
    model: str | None = None,
    steps: int | None = None,
    convergence: bool = False,
    seed: int = 0,
    cases: int | None = None,
    budget: float | None = None,
    paths: str | Sequence[str] = (),
    backends: str | Sequence[str] = (),
    max_world_size: int = 8,
    inputs: int = 1,
    workers: int | None = None,
    address: str | None = None,
    twice_every: int = TWICE_EVERY,
    fresh: bool = False,
) -> Result:
    """Runs a campaign, or continues it, as `difftest run` with these options, and returns its findings.

    `model` is a source such as `model.py:build` or `hf:llama`: its cases have `steps`, and `convergence`
    compares whether it learns. `budget` is in seconds; `paths` and `backends` are lists, or have commas.

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
        paths=_names(paths),
        backends=_names(backends),
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


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    """The names of a list, or of a text with commas."""
    return listed(names) if isinstance(names, str) else tuple(names)


def load(folder: Path | str) -> Result:
    """What a campaign left in its folder; `difftest.UsageError` where there is none."""
    corpus, _ = read_corpus(Path(folder))
    findings = tuple(corpus.finding(name) for name in sorted(corpus.fingerprints()))
    return Result(folder=Path(folder), findings=findings, corpus=corpus)
