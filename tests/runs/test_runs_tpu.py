"""A training on TorchTPU's stand-in, recorded: it agrees with the CPU, and recording changes no bit."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from pages import ROOT
from recorded_scripts import SCRIPTS
from tpu_made import PYTHON, needs_torch_tpu

import difftest

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.optimised, needs_torch_tpu]

LIBRARY = "from workers.tpu import build; print(build.library())"


def run(arguments: list[str], **variables: str) -> str:
    given = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(
        [str(PYTHON), *arguments], env=os.environ | given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_torch_tpu_agrees_with_the_cpu_and_recording_changes_no_bit(tmp_path: Path) -> None:
    shared = {
        "TPU_LIBRARY_PATH": run(["-c", f"import sys; sys.modules['torch'] = None; {LIBRARY}"]).strip(),
        "TPU_SKIP_MDS_QUERY": "1",
        "TORCH_TPU_TIER2_COMPILATION_CACHE": "disabled",
        "LAYERS": "1",
        "WIDTH": "32",
        "STEPS": "2",
    }
    script = str(SCRIPTS / "device.py")
    for device, out in (("cpu", "cpu"), ("tpu", "tpu"), ("tpu", "")):
        recording = str(tmp_path / out) if out else ""
        result = str(tmp_path / f"{device}-{out or 'plain'}.npz")
        run([script], **shared, DEVICE=device, OUT=recording, RESULT=result)
    with np.load(tmp_path / "tpu-plain.npz") as plain, np.load(tmp_path / "tpu-tpu.npz") as recorded:
        assert all(np.array_equal(plain[name], recorded[name]) for name in plain)
    found = difftest.compare(tmp_path / "cpu", tmp_path / "tpu")
    assert (found.verdict, found.skipped) == ("equal within rounding", {}), found.first
    assert found.compared > 100
