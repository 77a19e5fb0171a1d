"""A campaign over two versions of torch has the same findings if run jointly or recorded and compared.

`DIFFTEST_OTHER_PYTHON` names the Python of an environment that has this project, the same Ray and Python, and
another torch.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.xla,
    pytest.mark.skipif(
        "DIFFTEST_OTHER_PYTHON" not in os.environ,
        reason="DIFFTEST_OTHER_PYTHON names no Python with another torch",
    ),
]

OTHER = os.environ.get("DIFFTEST_OTHER_PYTHON", "")
TORCH, XLA = ("torch_ddp", "torch_dtensor"), ("xla_spmd",)
CASES = ("--seed", "0", "--cases", "21", "--paths", "data_parallel,tensor_parallel,data_tensor")
ENVIRONMENTS = '[[environment]]\nbackends = "torch_*"\npython = "{python}"\n'


def called(python: str, *arguments: str, **variables: str) -> dict[str, Any]:
    """The JSON output of a command."""
    command = [python, "-m", "difftest", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables, check=False)
    assert done.returncode in {0, 1}, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def findings(out: Path) -> dict[str, tuple[Any, ...]]:
    """What a campaign records of each finding, by fingerprint."""
    read = (json.loads(file.read_text()) for file in (out / "corpus").glob("*/finding.json"))
    return {
        one["fingerprint"]: (
            *(one[name] for name in ("blame", "case", "hits", "paths")),
            *(one["divergence"][name] for name in ("step", "tensor")),
        )
        for one in read
    }


def test_a_joint_run_and_two_recordings_with_different_torches_have_equal_findings(tmp_path: Path) -> None:
    places, joint, apart = tmp_path / "places.toml", tmp_path / "joint", tmp_path / "apart"
    places.write_text(ENVIRONMENTS.format(python=OTHER))
    backends = ",".join((*TORCH, *XLA))
    called(
        sys.executable,
        "run",
        *CASES,
        "--backends",
        backends,
        "--out",
        str(joint),
        DIFFTEST_ENVIRONMENTS=str(places),
    )
    for python, names in ((OTHER, TORCH), (sys.executable, XLA)):
        called(python, "record", *CASES, "--backends", ",".join(names), "--out", str(tmp_path / names[0]))
    called(sys.executable, "compare", str(tmp_path / TORCH[0]), str(tmp_path / XLA[0]), "--out", str(apart))
    assert findings(joint), "there must be findings to compare"
    assert findings(joint) == findings(apart)
