"""Bisection finds the right pair of versions in few runs, although some versions cannot be tested.

It creates each environment once, and its scripts show a fault, its absence or neither.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from installed_packages import needs
from machines import Machine, a_campaign, always, examined, sharded, the_finding
from sample_findings import FINDING, changed
from samples import a_case

from difftest.findings.bisect import VersionResult, bisect
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.ground.made_environments import COMPLETE
from difftest.jobs.filing import case_script
from difftest.jobs.filing.bisection import ask_version, read_script
from difftest.jobs.filing.script_runs import run_script
from difftest.jobs.installed.environments import Environments
from difftest.records import own_scripts
from difftest.records.corpus import SCRIPT
from generators.cases import case_at
from workers.isolate import sandbox

ROOT = Path(__file__).parents[2]

LETTERS = {"s": (3, 0, 3), "a": (0, 3, 3), "u": (1, 2, 3), "-": (0, 0, 0)}
"""The runs that show the fault, those that show its absence, and all; untestable versions have none."""


def answering(answers: str) -> tuple[list[str], list[str], Callable[[str], VersionResult]]:
    """Versions named by their place, the list of those tested so far, and the function that tests one."""
    versions, requested = [str(place) for place in range(len(answers))], list[str]()

    def ask(version: str) -> VersionResult:
        requested.append(version)
        shown, absent, times = LETTERS[answers[int(version)]]
        return VersionResult(version=version, shown=shown, absent=absent, times=times)

    return versions, requested, ask


@pytest.mark.parametrize(
    ("answers", "verdict", "last", "first"),
    [
        ("aaass", "came", "2", "3"),
        ("saaaa", "went", "0", "1"),
        ("-a-s-", "came", "1", "3"),
        ("sssss", "in all", "", ""),
        ("aa", "in none", "", ""),
        ("a-u-s", "unreliable", "", ""),
        ("ua", "unreliable", "", ""),
        ("---", "untold", "", ""),
    ],
)
def test_the_verdict_names_the_versions_between_which_it_changed(
    answers: str, verdict: str, last: str, first: str
) -> None:
    versions, _, ask = answering(answers)
    result = bisect(versions, ask)
    assert (result.verdict, result.last, result.first) == (verdict, last, first)


@given(
    before=st.integers(1, 40),
    after=st.integers(1, 40),
    gone=st.booleans(),
    mute=st.sets(st.integers(0, 79), max_size=6),
)
def test_one_change_is_located_in_few_runs(before: int, after: int, gone: bool, mute: set[int]) -> None:
    letters = list("sa"[not gone] * before + "sa"[gone] * after)
    for place in mute & set(range(1, len(letters) - 1)):
        letters[place] = "-"
    versions, requested, ask = answering("".join(letters))
    result = bisect(versions, ask)
    telling = [place for place, letter in enumerate(letters) if letter != "-"]
    edge = next((low, high) for low, high in pairwise(telling) if letters[low] != letters[high])
    assert (result.last, result.first) == tuple(map(str, edge))
    assert len(requested) == len(set(requested)) <= 2 + 7 + len(mute)


def test_a_fault_that_appears_and_disappears_again_is_not_one_change() -> None:
    versions, _, ask = answering("asa")
    assert bisect(versions, ask).verdict == "in none"
    assert bisect(versions, ask, everyone=True).verdict == "unreliable"


def test_fewer_than_two_versions_are_refused() -> None:
    for versions in (["2.9.0"], [], ["2.9.0", "2.9.0"]):
        with pytest.raises(UsageError, match="at least two"):
            bisect(versions, lambda version: VersionResult(version=version))


def test_a_script_that_ends_in_another_way_shows_neither_fault_nor_absence(tmp_path: Path) -> None:
    class Here(Environments):
        def interpreter(self, version: str) -> Path:  # noqa: ARG002  the same for every version
            return Path(sys.executable)

    here = Here(root=tmp_path, package="p", companions=())
    answers = {
        script: ask_version(here, script, "1", 2, 20).answer
        for script in ("pass", "raise SystemExit(1)", "import nowhere", "exit(3)")
    }
    assert list(answers.values()) == ["shown", "absent", "untold", "untold"]


def test_an_environment_is_created_once_unless_its_creation_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[list[str]]()

    def pretend(command: list[str]) -> None:
        calls.append(command)
        if "venv" in command:
            (tmp_path / Path(command[-1]).name).mkdir()

    monkeypatch.setattr("difftest.jobs.installed.environments._call", pretend)
    made = Environments(root=tmp_path, package="torch_xla", companions=("torch=={version}", "numpy"))
    for _ in range(2):
        assert made.interpreter("2.8.0") == tmp_path / "torch_xla-2.8.0" / "bin" / "python"
    assert len(calls) == 2
    assert calls[1][-3:] == ["torch_xla==2.8.0", "torch==2.8.0", "numpy"]
    (tmp_path / "torch_xla-2.8.0" / COMPLETE).unlink()
    made.interpreter("2.8.0")
    assert len(calls) == 4


def test_a_version_whose_environment_cannot_be_created_has_no_result(tmp_path: Path) -> None:
    made = Environments(root=tmp_path, package="p", companions=(), python=tmp_path / "none")
    with pytest.raises(InfrastructureError):
        made.interpreter("1")
    assert ask_version(made, "pass", "1", 3, 20).answer == "untold"


def a_finding(root: Path) -> Path:
    campaign = a_campaign(root, Machine(spmd=sharded))
    examined(campaign)
    return root / the_finding(campaign).fingerprint


def test_a_finding_is_tested_by_its_reproducer_or_else_by_its_case(tmp_path: Path) -> None:
    folder = a_finding(tmp_path)
    text, besides = read_script(folder)
    assert (folder.name in text, besides) == (True, ("-e", str(ROOT)))
    (folder / SCRIPT).write_text("exit(1)")
    own_scripts.remember(folder.name, "exit(1)", "")
    assert read_script(folder) == ("exit(1)", ())


def test_a_target_that_is_neither_finding_nor_script_is_refused_by_name(tmp_path: Path) -> None:
    for target in (tmp_path, tmp_path / "none.py"):
        with pytest.raises(UsageError, match=str(target)):
            read_script(target)


def test_a_case_runs_in_another_environment_only_from_a_checkout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a checkout"):
        case_script.requirement(tmp_path)


def test_the_script_of_a_case_distinguishes_the_fault_its_absence_and_other_faults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine, case = Machine(torch_ddp=always), a_case().to_json()
    monkeypatch.setattr(sandbox, "run", machine.run)
    assert case_script.run(case, "torch_ddp", "torch_ddp-loss-mismatch-00000000") == case_script.INCONCLUSIVE
    shown = capsys.readouterr().out.split()[-1]
    assert case_script.run(case, "torch_ddp", shown) == case_script.SHOWN
    machine.wrong = {}
    assert case_script.run(case, "torch_ddp", shown) == case_script.ABSENT


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.xla
def test_the_script_of_a_case_detects_a_real_fault() -> None:
    """The second case of seed 0 shows the functional-tensor assert (pytorch/xla#8534) on XLA's side alone."""
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    case = case_at(0, 1)
    alive = changed(FINDING, backend="xla_dtensor", fingerprint="xla_dtensor-completion-exception-5dafd4b6")
    tried = run_script(case_script.script(alive, case))
    assert (tried.shown, tried.absent) == (True, False), tried.output
    assert case_script.run(case.to_json(), "torch_dtensor", alive.fingerprint) == case_script.ABSENT


@pytest.mark.slow
def test_the_command_finds_where_a_package_changed(tmp_path: Path) -> None:
    """The change of a package of a few kilobytes: since 2.0 `tomli` refuses a file opened as text."""
    script = tmp_path / "script.py"
    script.write_text(
        "import io, tomli\ntry:\n    tomli.load(io.StringIO('a = 1'))\n"
        "except (TypeError, AttributeError):\n    exit(0)\nexit(1)\n"
    )
    words = [
        "bisect",
        str(script),
        "--package",
        "tomli",
        "--versions",
        "1.1.0,1.2.3,2.0.0,2.0.1",
        "--times",
        "1",
        "--json",
    ]
    words += ["--environments", str(tmp_path / "environments")]
    done = subprocess.run(
        [sys.executable, "-m", "difftest", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert (output["verdict"], output["last"], output["first"]) == ("came", "1.2.3", "2.0.0")
