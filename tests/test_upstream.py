"""Each fault found by campaigns in the pinned torch and torch_xla has a script that needs no difftest."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import ROOT
from tpu_made import PYTHON
from warm_python import WarmPython, warm_python

from difftest import made_environments
from difftest.findings.faults import NEWEST, Fault, read_faults
from tools import releases

SCRIPTS = sorted((Path(__file__).parent / "upstream").glob("*.py"))
FAULTS = (ROOT / "docs" / "faults.md").read_text()

NEWEST_TORCH = made_environments.python("newest")
IN_NEWEST = [
    one for one in read_faults() if (one.package, one.releases.get(NEWEST["torch"])) == ("torch", "alive")
]
"""The faults of torch that the newest release has."""

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


ALONE = ("torchrun", "os.fork", "torchax", "import jax")
"""A script with one of these words needs a Python of its own; others run in a fork of a warm one."""

LONGEST_SECONDS = 400
"""On a busy machine; alone the longest takes 20 s."""

RACES = ("first_collectives_race_on_xla",)
"""A race of threads needs CPUs that are free, which the tests of every change do not leave."""


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmPython]:
    modules = ("torch", "torch._dynamo", "torch.distributed.tensor")
    with warm_python(modules, tmp_path_factory.mktemp("torch")) as python:
        yield python


@pytest.fixture(scope="module")
def with_torch_xla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmPython]:
    modules = ("torch", "torch._dynamo", "torch.distributed.tensor", "torch_xla")
    with warm_python(modules, tmp_path_factory.mktemp("torch_xla")) as python:
        yield python


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, marks=pytest.mark.nightly if script.stem in RACES else (), id=script.stem)
        for script in SCRIPTS
    ],
)
def test_the_fault_is_still_there(script: Path, request: pytest.FixtureRequest) -> None:
    """If this fails, upstream may have fixed the fault; then remove its row from docs/faults.md."""
    pytest.importorskip("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    text = script.read_text()
    if "import torch_tpu" in text or "from torch_tpu" in text:
        status, output = with_torch_tpu(script)
        assert status == 0, output
        assert "expected" in output
        return
    if in_newest_alone(script):
        status, output = with_newest_torch(script)
        assert status == 0, output
        assert "expected" in output
        return
    if "import torchax" in text:
        pytest.importorskip("flax", reason="needs torchax: pip install 'difftest[torchax]'")
    if "import jax" in text:
        pytest.importorskip("jax", reason="needs jax: pip install 'difftest[flash]'")
    if any(word in text for word in ALONE):
        status, output = alone(script)
    else:
        warm = "with_torch_xla" if "torch_xla" in text else "with_torch"
        status, output = request.getfixturevalue(warm).run(script, LONGEST_SECONDS)
    if releases.NEEDS_GPU in output:
        pytest.skip(releases.NEEDS_GPU)
    assert status == 0, output
    assert "expected" in output


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("fault", IN_NEWEST, ids=lambda fault: "-".join((fault.script, *fault.arguments)))
def test_the_newest_torch_still_has_the_fault(fault: Fault) -> None:
    """If this fails: `python tools/releases.py newest --package torch --write` says so in the list."""
    status, output = with_newest_torch(ROOT / "tests" / "upstream" / fault.script, *fault.arguments)
    if releases.NEEDS_GPU in output:
        pytest.skip(releases.NEEDS_GPU)
    assert status == 0, output


def in_newest_alone(script: Path) -> bool:
    """Whether torch has the script's faults in the newest release, and not in the one that is pinned."""
    shown = [fault for fault in IN_NEWEST if fault.script == script.name]
    return bool(shown) and all(list(fault.releases) == [NEWEST["torch"]] for fault in shown)


def with_newest_torch(script: Path, *arguments: str) -> tuple[int, str]:
    if NEWEST_TORCH is None:
        pytest.skip(
            "no environment with the newest torch: `difftest environments make newest`, in DIFFTEST_MADE"
        )
    return alone(script, str(NEWEST_TORCH), arguments)


def alone(
    script: Path, python: str = sys.executable, arguments: tuple[str, ...] = (), **variables: str
) -> tuple[int, str]:
    words, environment = (python, str(script), *arguments), os.environ | variables
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS, env=environment
    )
    return done.returncode, done.stdout + done.stderr


def with_torch_tpu(script: Path) -> tuple[int, str]:
    if PYTHON is None:
        pytest.skip("no environment with torch_tpu: `difftest environments make torch_tpu`, in DIFFTEST_MADE")
    return alone(script, str(PYTHON), TPU_LIBRARY_PATH=releases.stand_in(str(PYTHON)))
