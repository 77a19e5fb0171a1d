"""Which faults of the list a corpus shows."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from sample_findings import FINDING
from samples import a_case
from test_ledger_blocks import MEAN, of_block

from difftest.findings.faults import read_faults
from difftest.records.corpus import CORPUS, Corpus
from tools import found_again

DAY = "2026-01-05"


def test_a_finding_shows_the_fault_that_the_ledger_knows_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = Corpus(tmp_path / CORPUS)
    corpus.prepare()
    known = replace(
        FINDING, divergence=MEAN, fingerprint=MEAN.fingerprint, first_seen=f"{DAY}T09:00:00+00:00"
    )
    corpus.save(
        known,
        of_block(
            "cross_entropy",
            vocabulary=8,
            classes=4,
            smoothing=0.0,
            weighted=False,
            reduction="mean",
            ignored=True,
        ),
    )
    corpus.save(replace(FINDING, first_seen=f"{DAY}T09:40:00+00:00"), a_case())
    found_again.main(tmp_path)
    table, hours, missing = capsys.readouterr().out.split("\n\n")
    ours = next(fault for fault in read_faults() if fault.issue.endswith("/185167"))
    assert f"| all | {len(read_faults())} | 1 |" in table
    assert f"| {ours.package} | " in table
    assert hours == "new by quarter of an hour: 1"
    assert ours.title not in missing
    assert len(missing.strip().splitlines()) == 1 + len(read_faults()) - 1, "a heading, and the others"
