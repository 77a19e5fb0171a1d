"""The evidence of a real finding names the option by which the ledger knows it, whatever the check."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from samples import a_case

from difftest.campaign.campaign import Campaign
from difftest.campaign.run import run
from difftest.cases.case import Case, Training
from difftest.cases.options import Spelling
from difftest.findings.ledger import Ledger, read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.records.evidence import DECIDED_BY
from workers.backends import candidates

pytestmark = [pytest.mark.slow, pytest.mark.xla]
pytest.importorskip("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")

from workers.isolate import sandbox  # noqa: E402

OPTION = "spelling.optimizer_before=True"


def test_a_fault_that_an_option_decides_is_known_by_the_evidence_alone(tmp_path: Path) -> None:
    case = a_case(training=Training(steps=2), spelling=Spelling(optimizer_before=True))

    def execute(given: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        return sandbox.run(given, backend, options=dict(options))

    (corpus := Corpus(tmp_path)).prepare()
    backends = candidates(("xla_spmd", "torch_dtensor"))
    campaign = Campaign(name="decided", backends=backends, execute=execute, corpus=corpus)
    (progress,) = run(campaign, [(0, case)])
    (finding,) = (one for one in progress.new if one.divergence.backend == "xla_spmd")
    assert OPTION in finding.evidence[DECIDED_BY]
    ledger = Ledger(entries=tuple(one for one in read_ledger().entries if one.decided_by == OPTION))
    assert ledger.entry(finding.divergence, case, utc_today()) is None, "nothing else of it is known"
    assert ledger.entry_of(finding, case, utc_today()) in ledger.entries
