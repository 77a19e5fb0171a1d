"""Large corpora: what is kept in memory of a case, and that the index changes no report."""

import tracemalloc
from pathlib import Path

import pandas as pd
import pytest
from benchmarks import records
from machines import timeless_tables
from msgspec.structs import replace

from difftest.records import index
from difftest.records.columns import Columns
from difftest.records.corpus import CORPUS, Corpus
from difftest.records.resume import CampaignRecord, resumed
from reports import frame
from reports.write import write

RUNS = 7 * 16
FIRST, CASES = 50, 100
"""So many cases fill what all share, such as the imports of pyarrow, and so many are measured after them."""

MOST_BYTES = 1024
"""What may stay in memory of a case."""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The output folder of a synthetic campaign."""
    records.make(tmp_path, RUNS)
    return tmp_path


@pytest.mark.long
def test_a_report_from_the_index_is_that_from_the_lines(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = Corpus(out / CORPUS)
    with resumed(corpus, records.CAMPAIGN) as from_lines:
        pass
    table = frame.load(corpus)
    expected, runs = table.whole(), timeless_tables(corpus.root)
    texts = [file.read_text().splitlines() for file in write(out, ("csv", "summary", "markdown", "html"))]
    monkeypatch.setattr(index, "PART_BYTES", 8_000)
    monkeypatch.setattr(frame, "ROWS", 200)
    monkeypatch.setattr(frame, "CACHED", 2)
    with resumed(corpus, records.CAMPAIGN) as first, resumed(corpus, "another"):
        assert first == from_lines
    indexed = list(index.parts(corpus.lines(records.CAMPAIGN)))
    assert sum(bool(part.index) for part in indexed) > 7
    assert len(list(frame.load(corpus).slices())) > 4
    pd.testing.assert_frame_equal(frame.load(corpus).whole(), expected)
    assert frame.load(corpus).comparisons == table.comparisons
    for before, file in zip(texts, write(out, ("csv", "summary", "markdown", "html")), strict=True):
        changed = [
            line for line, old in zip(file.read_text().splitlines(), before, strict=True) if line != old
        ]
        assert all("enerated" in line for line in changed)
    pd.testing.assert_frame_equal(pd.read_parquet(write(out, ["parquet"])[0]), expected)
    assert timeless_tables(corpus.root) == runs


@pytest.mark.long
def test_a_recorded_case_takes_less_than_a_kibibyte_of_memory(out: Path) -> None:
    record, before = CampaignRecord(), 0
    try:
        for number, case in enumerate(records.cases(FIRST + CASES)):
            if number == FIRST:
                tracemalloc.start()
                before = tracemalloc.get_traced_memory()[0]
            for run in case:
                diverging = {"verdict": "diverge", "fingerprints": (records.fingerprint(run.index % 20),)}
                record.add(Columns.of([replace(run, **(diverging if run.side == "xla" else {}))]))
        bytes_of_a_case = (tracemalloc.get_traced_memory()[0] - before) / CASES
    finally:
        tracemalloc.stop()
    assert 100 < bytes_of_a_case < MOST_BYTES
