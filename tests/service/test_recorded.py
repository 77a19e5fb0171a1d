"""A bundle that a real GPU recorded is compared with a new XLA run on this machine."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_line import answered, command
from installed_packages import needs

from difftest.records.bundle_archive import unpacked

pytestmark = [pytest.mark.slow, pytest.mark.xla]
needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")

FROM_A_GPU = Path(__file__).parents[1] / "data" / "cuda.zip"
"""Recorded on an H100; `docs/cuda.md` has the command."""


def compared(bundle: Path, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Return the ids of the cases that a backend ran, and what `difftest compare` says of them.

    They run here on `xla_spmd`.
    """
    with unpacked([bundle]) as (there,):
        lines = [json.loads(line) for line in (there / "runs.jsonl").read_text().splitlines()]
        recorded = sorted({line["case"] for line in lines if line["index"] >= 0 and line["side"] != "oracle"})
        cases = [there / "cases" / f"{name}.json" for name in recorded]
        done = command("record", *cases, "--backends", "xla_spmd", "--out", folder / "xla.zip")
        assert done.status == 0, done.output
    status, output = answered("compare", bundle, folder / "xla.zip", "--out", folder / "out")
    assert status < 2
    return recorded, output


def test_git_does_not_ignore_the_bundle() -> None:
    command = ["git", "check-ignore", "--no-index", str(FROM_A_GPU)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FROM_A_GPU.parents[1])
    assert (done.returncode, done.stdout) == (1, ""), done.stdout + done.stderr


@pytest.mark.nightly
def test_a_bundle_recorded_on_a_gpu_is_compared_with_xla(tmp_path: Path) -> None:
    recorded, output = compared(FROM_A_GPU, tmp_path)
    assert recorded
    assert [output["comparisons"][side]["completed"] for side in ("torch", "xla")] == [len(recorded)] * 2
    assert not set(output["new"]) - set(output["upstream"]), "all differences are in the ledger"
    table = pd.read_parquet(tmp_path / "out" / "table.parquet")
    assert not any(
        json.loads(environment)["device"] == "cpu"
        for environment in table[table.backend == "torch_ddp"].environment
    ), "the folder is for bundles of a GPU"
