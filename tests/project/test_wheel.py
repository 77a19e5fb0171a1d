"""The wheel, in an environment that has the dependencies and not this checkout: what it lacks fails here."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from installed_packages import needs
from pages import ROOT
from sample_findings import a_corpus, a_finding

from difftest.findings.faults import KNOWN, SCRIPTS
from difftest.ground import plugins
from difftest.records.corpus import DRAFT, SCRIPT

pytestmark = pytest.mark.slow

ALONE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DIFFTEST"))}
PACKAGES = ("difftest", "generators", "workers", "reports")
NO_INDEX = "No matching distribution found for setuptools"


def run(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    return subprocess.run(
        command, cwd=folder, env=ALONE, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; it borrows the dependencies of this one."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    built = run(*pip, "wheel", "--no-deps", "--wheel-dir", folder, source, folder=folder)
    if NO_INDEX in built.stderr:
        pytest.skip("the package index cannot be reached, and a build needs setuptools")
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("difftest-*.whl")
    venv.create(folder / "environment", symlinks=True)
    python = folder / "environment" / "bin" / "python"
    installed = run(*pip, "--python", python, "install", "--no-deps", wheel, folder=folder)
    assert installed.returncode == 0, installed.stderr
    packages = next((folder / "environment" / "lib").glob("python*/site-packages"))
    (packages / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python.parent


def test_the_program_of_the_wheel_runs_where_there_is_no_checkout(environment: Path, tmp_path: Path) -> None:
    where = "import difftest, reports, workers, generators; print(difftest.__file__)"
    found = run(environment / "python", "-c", where, folder=tmp_path).stdout.strip()
    assert Path(found).is_relative_to(environment.parent), found
    done = run(environment / "difftest", "list", "backends", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(plugins.names("workers.backends")) <= set(done.stdout.split())


def test_the_wheel_draws_cases_and_operator_programs(environment: Path, tmp_path: Path) -> None:
    done = run(environment / "difftest", "case", "--seed", "0", "--index", "3", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"]


def test_the_wheel_writes_every_report(environment: Path, tmp_path: Path) -> None:
    a_corpus(tmp_path / "run")
    formats = ",".join(plugins.names("reports.formats"))
    done = run(environment / "difftest", "report", tmp_path / "run", "--format", formats, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "<title>" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.nightly  # `test_package_data.py` has that its script is in the wheel
def test_the_wheel_drafts_a_known_fault_with_its_script(environment: Path, tmp_path: Path) -> None:
    needs("torch", reason="needs torch: pip install 'difftest[xla]'")
    known = KNOWN / "unravel_index_on_dtensor.py"
    finding = a_finding(
        backend="torch_dtensor", side="torch", upstream=f"{SCRIPTS}{known.name}", stable=(2, 2)
    )
    folder = a_corpus(tmp_path / "run", findings=(finding,)).root / finding.fingerprint
    done = run(environment / "difftest", "file", folder, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / SCRIPT).read_text() == known.read_text()
    program = without_blank_lines(known.read_text().partition('"""\n\n')[2])
    assert program in without_blank_lines((folder / DRAFT).read_text()), "without its docstring"


def without_blank_lines(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line)
