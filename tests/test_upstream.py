"""Each fault found by campaigns in the pinned torch and torch_xla has a script that needs no difftest."""

import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

SCRIPTS = sorted((Path(__file__).parent / "upstream").glob("*.py"))
FAULTS = (ROOT / "docs" / "faults.md").read_text()

scripts = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


@scripts
def test_a_reproducer_stands_alone_and_is_listed(script: Path) -> None:
    text = script.read_text()
    assert not any(
        f"import {name}" in text or f"from {name}" in text
        for name in ("difftest", "generators", "workers", "reports")
    )
    assert text.count("\n") <= 60
    assert f"`{script.name}`" in FAULTS


@pytest.mark.slow
@pytest.mark.xla
@scripts
def test_the_fault_is_still_there(script: Path) -> None:
    """If this fails, upstream may have fixed the fault; then remove its row from docs/faults.md."""
    pytest.importorskip("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    if "import torchax" in script.read_text():
        pytest.importorskip("flax", reason="needs torchax: pip install 'difftest[torchax]'")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "expected" in done.stdout
