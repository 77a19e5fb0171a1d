"""Commands in working directories of strangers: nothing of theirs runs or decides without consent."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import command
from hostile_folders import (
    FINDING,
    FOLDERS,
    NEVER_RAN,
    NOT_MADE,
    RAN,
    a_case_of_a_module,
    a_finding,
    arguments,
    modules,
)
from own_models import own_case

from difftest import cli
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.ask.capacity import check_runnable, is_runnable
from difftest.jobs.ask.consent import require_own_finding, require_own_module
from difftest.jobs.ask.targets import read_finding
from difftest.jobs.installed import environments
from difftest.records import own_cases
from difftest.records.case_files import read_case
from generators.cases import case_at
from workers.isolate import sandbox

LONGEST_SECONDS = 120


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory; the user's state holds nothing, and nothing is installed or run."""

    def unreachable(*_: object, **__: object) -> None:
        msg = "no network"
        raise InfrastructureError(msg)

    def unwanted(*_: object, **__: object) -> None:
        pytest.fail("a case was run")

    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(environments, "_call", unreachable)
    monkeypatch.setattr(sandbox, "run", unwanted)
    return here


@contextmanager
def ends() -> Iterator[None]:
    """Fails a command that waits forever."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the command did not end"))
    signal.alarm(LONGEST_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def stranger(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """From here on another user works, for whom difftest has done nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder.parent / "state"))


def test_there_are_many_hostile_folders() -> None:
    assert len(FOLDERS) >= 50


@pytest.mark.parametrize("what", FOLDERS)
def test_nothing_of_a_hostile_folder_runs_or_decides(
    what: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = FOLDERS[what]
    hostile.make(folder)
    stranger(monkeypatch, folder)
    with ends():
        result = command(*arguments(folder, hostile.command))
    assert not (folder / RAN).exists(), result.output
    assert "Traceback" not in result.output
    assert result.status in hostile.statuses, result.output
    assert hostile.says in result.output
    assert not set(result.output) & set("\x1b\x07")


def test_the_defaults_of_a_file_are_said(folder: Path) -> None:
    (folder / "difftest.toml").write_text("[case]\nseed = 3\nindex = 1\n")
    done = CliRunner().invoke(cli.difftest, ["case", "--index", "2"])
    assert done.stderr == f"defaults of '{folder}/difftest.toml': seed = '3', number = '1'\n"
    assert Case.from_json(done.stdout_bytes) == case_at(3, 2), "what is given on the line comes first"


def test_a_finding_that_the_user_s_campaign_made_runs_without_a_question(folder: Path) -> None:
    made = a_finding(folder)
    require_own_finding(read_finding(made))
    (made / "case.json").write_bytes(own_case(folder).to_json())
    with pytest.raises(UsageError, match=NOT_MADE):
        require_own_finding(read_finding(made))


def test_consent_to_a_finding_is_remembered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = read_finding(a_finding(folder))
    stranger(monkeypatch, folder)
    with pytest.raises(UsageError, match="give --trust to run it"):
        require_own_finding(subject)
    require_own_finding(subject, trust=True)
    require_own_finding(subject)


def test_consent_to_a_module_is_remembered_by_its_content(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_case_of_a_module(folder)
    case = read_case(folder / "case.json")
    stranger(monkeypatch, folder)
    assert not is_runnable(case)
    with pytest.raises(UsageError, match=NEVER_RAN):
        check_runnable(case)
    assert check_runnable(case, trust=True) is case
    assert is_runnable(case)
    assert check_runnable(case) is case
    assert case.model.own
    other = own_case(folder).model.own
    assert other
    assert other.files != case.model.own.files
    with pytest.raises(UsageError, match=NEVER_RAN):
        require_own_module(other)
    own_cases.remember_module(other)
    require_own_module(other)


def test_where_nothing_can_be_remembered_consent_still_holds_and_the_user_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = read_finding(a_finding(folder))
    (folder / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "file"))
    require_own_finding(subject, trust=True)
    assert "later commands will ask for consent again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("called", "variables"),
    [
        (("--help",), {}),
        (("--help",), {"PYTHONPATH": ""}),
        (("case", "--seed", "1"), {"PYTHONSAFEPATH": ""}),
        (("report", "corpus"), {}),
        (("show", FINDING), {}),
        (("coverage", "corpus"), {}),
    ],
    ids=str,
)
@pytest.mark.long
def test_no_module_of_a_hostile_folder_is_imported(
    folder: Path, called: tuple[str, ...], variables: dict[str, str]
) -> None:
    a_finding(folder)
    modules(folder)
    program = str(Path(sys.executable).with_name("difftest"))
    kept = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder.parent),
        "XDG_STATE_HOME": str(folder.parent / "state"),
    }
    done = subprocess.run(
        [program, *arguments(folder, called)],
        cwd=folder,
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (folder / RAN).exists(), done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in {0, 1, 2}, done.stderr
