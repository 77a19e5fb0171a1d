"""Resuming with real processes: `difftest run` killed with its cluster, and two consecutive nights.

On every change `tests/jobs/test_nightly.py` runs nights in a row, killed and resumed, on a pretended cluster,
and `tests/service/test_service.py` a second campaign and a replay on a real corpus.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from installed_packages import needs
from machines import timeless_tables

from difftest.records.corpus import Corpus

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")
needs("ray", reason="needs ray: pip install 'difftest[cluster]'")

SMALL = (
    "--backends",
    "torch_ddp,torch_dtensor",
    "--paths",
    "data_parallel,tensor_parallel",
    "--max-world-size",
    "2",
    "--workers",
    "1",
)
RUN = (
    sys.executable,
    "-m",
    "difftest",
    "run",
    "--seed",
    "3",
    "--cases",
    "4",
    "--twice-every",
    "0",
    "--fail-on",
    "never",
    *SMALL,
)
TIMES = ["seconds", "started"]


def summary_of(*words: str) -> dict[str, Any]:
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode < 2, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def kill_after(lines: int, out: Path) -> None:
    """Start the campaign, and kill it once it has recorded `lines` runs."""
    process = subprocess.Popen(
        [*RUN, "--out", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while sum(file.read_bytes().count(b"\n") for file in out.glob("corpus/observations/*.jsonl")) < lines:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.nightly
def test_a_killed_campaign_resumes_and_ends_with_the_tables_of_an_undisturbed_one(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    kill_after(1, killed)
    before = {run.index for run in Corpus(killed / "corpus").observations()}
    gone_on = summary_of(*RUN, "--out", str(killed))
    undisturbed = summary_of(*RUN, "--out", str(whole))
    assert (gone_on["resumed"], gone_on["cases"]) == (len(before), 4 - len(before))
    assert (undisturbed["resumed"], undisturbed["cases"]) == (0, 4)
    for name in ("new", "known", "upstream"):
        assert gone_on[name] == undisturbed[name]
    assert timeless_tables(killed / "corpus") == timeless_tables(whole / "corpus")
    one, other = (pd.read_parquet(out / "table.parquet").drop(columns=TIMES) for out in (killed, whole))
    pd.testing.assert_frame_equal(one, other)


@pytest.mark.nightly
def test_two_nightly_runs_in_a_row(tmp_path: Path) -> None:
    words = (
        sys.executable,
        "-m",
        "difftest",
        "nightly",
        "--cases",
        "1",
        "--budget",
        "5m",
        "--out",
        str(tmp_path),
        *SMALL,
    )
    first = summary_of(*words, "--date", "2026-11-20")
    second = summary_of(*words, "--date", "2026-11-21")
    assert (first["seed"], second["seed"]) == (20261120, 20261121)
    assert first["cases"] > second["cases"] == 1, "the first night of a folder begins with the known cases"
    assert not first["trouble"]
    assert not second["trouble"]
    assert set(second["replayed"]) == {*first["new"], *first["known"]}
    assert not set(second["new"]) & set(first["new"])
    campaigns = {run.campaign for run in Corpus(tmp_path / "corpus").observations()}
    assert sorted(re.sub("-.*", "", name) for name in campaigns) == ["seed20261120", "seed20261121"]
    assert (tmp_path / "junit.xml").is_file()
