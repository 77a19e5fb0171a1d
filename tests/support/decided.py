"""A real campaign of one case, and the finding whose evidence names the option that decides."""

from collections.abc import Mapping
from pathlib import Path

from difftest.campaign.campaign import Campaign
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.findings.ledger import Ledger
from difftest.ground.clock import utc_today
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.records.evidence import DECIDED_BY
from workers.backends import candidates
from workers.isolate import sandbox


def assert_known_by_its_option(
    case: Case, backends: tuple[str, ...], ledger: Ledger, option: str, folder: Path
) -> None:
    """Asserts that the evidence names `option`, and that the ledger knows the finding by that alone.

    The finding is of the first of `backends`.
    """

    def execute(given: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        return sandbox.run(given, backend, options=dict(options))

    (corpus := Corpus(folder)).prepare()
    campaign = Campaign(name="decided", backends=candidates(backends), execute=execute, corpus=corpus)
    (progress,) = run(campaign, [(0, case)])
    (finding,) = (one for one in progress.new if one.divergence.backend == backends[0])
    assert option in finding.evidence[DECIDED_BY].split(", ")
    assert ledger.entry(finding.divergence, case, utc_today()) is None, "the case alone says too little"
    assert ledger.entry_of(finding, case, utc_today()) in ledger.entries
