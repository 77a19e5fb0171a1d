"""A script that came with a corpus is run only if the user agrees, and no draft says that it was run."""

import io
import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from machines import Machine, a_campaign, examined, sharded, the_finding
from sample_findings import FINDING, changed
from samples import a_case

from difftest import cli
from difftest.ground.errors import InfrastructureError
from difftest.jobs.filing import draft
from difftest.jobs.filing.reproduction import Reproduction
from difftest.jobs.filing.script_runs import ScriptRun
from difftest.jobs.installed.environments import Environments
from difftest.records import own_scripts
from difftest.records.corpus import OUTPUT, SCRIPT, Corpus

SCRIPT_TEXT = "open({!r}, 'w').close()\n"
"""A script that leaves a file, and shows the fault."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's state, which holds nothing yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a finding with a planted script. Versions to bisect are all this Python."""
    monkeypatch.setattr(Environments, "interpreter", lambda _self, _version: Path(sys.executable))
    monkeypatch.setattr(draft, "collect_env", lambda _python: "")
    campaign = a_campaign(tmp_path / "corpus", Machine(spmd=sharded))
    examined(campaign)
    folder = tmp_path / "corpus" / the_finding(campaign).fingerprint
    (folder / SCRIPT).write_text(SCRIPT_TEXT.format(str(tmp_path / "ran")))
    (folder / OUTPUT).write_text("expected 1, actual 2\n")
    return folder


def difftest(*arguments: object) -> Result:
    result = CliRunner().invoke(cli.difftest, list(map(str, arguments)), standalone_mode=False)
    assert result.exception is None or isinstance(result.exception, ValueError)
    return result


def bisected(*arguments: object) -> Result:
    return difftest("bisect", *arguments, "--package", "p", "--versions", "1,2", "--times", "1")


def test_a_scripts_text_finding_and_output_are_all_recognised() -> None:
    own_scripts.remember("a-b-c-00000000", "text", "output")
    assert own_scripts.is_own("a-b-c-00000000", "text")
    assert own_scripts.has_printed("a-b-c-00000000", "text", "output")
    assert not own_scripts.has_printed("a-b-c-00000000", "text", "another output")
    for fingerprint, text in (("a-b-c-00000001", "text"), ("a-b-c-00000000", "text ")):
        assert not own_scripts.is_own(fingerprint, text)
        assert not own_scripts.has_printed(fingerprint, text, "output")


def test_what_a_script_printed_is_that_of_its_last_run() -> None:
    own_scripts.remember("a-b-c-00000000", "text", "first")
    own_scripts.remember("a-b-c-00000000", "text", "second")
    assert [own_scripts.has_printed("a-b-c-00000000", "text", one) for one in ("first", "second")] == [0, 1]


@pytest.mark.parametrize("target", [".", SCRIPT])
def test_a_script_from_elsewhere_is_not_run_unless_it_is_trusted(folder: Path, target: str) -> None:
    ran = folder.parent.parent / "ran"
    refused = bisected(folder / target)
    assert str(folder / SCRIPT) in str(refused.exception)
    assert "give --trust to run it" in str(refused.exception)
    assert not ran.exists()
    assert bisected(folder / target, "--trust").return_value == 1
    assert ran.exists()


def test_nothing_in_a_corpus_can_claim_that_a_script_is_difftests_own(folder: Path, state: Path) -> None:
    """Not even the whole state of the user who made the corpus."""
    own_scripts.remember(folder.name, (folder / SCRIPT).read_text(), (folder / OUTPUT).read_text())
    shutil.copytree(state, folder / "state")
    shutil.copytree(state, folder.parent / ".local" / "state")
    shutil.rmtree(state)
    assert "--trust" in str(bisected(folder).exception)
    assert not (folder.parent.parent / "ran").exists()


@pytest.mark.parametrize(("answer", "ran"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_on_a_terminal_the_user_is_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, answer: str, ran: bool
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", question := Terminal())
    arguments = [str(folder), "--package", "p", "--versions", "1,2", "--times", "1"]
    try:
        cli.difftest.main(["bisect", *arguments], standalone_mode=False)
    except ValueError as error:
        assert "--trust" in str(error)  # noqa: PT017  either way is right here
    assert str(folder / SCRIPT) in question.getvalue()
    assert (folder.parent.parent / "ran").exists() == ran


def test_a_script_of_the_users_own_is_run_as_before(tmp_path: Path, folder: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text((folder / SCRIPT).read_text())
    assert bisected(script).return_value == 1
    assert (tmp_path / "ran").exists()


def reproduced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """`difftest reproducer`, with a script that was run."""
    script = ScriptRun(text=(folder / SCRIPT).read_text(), shown=True, output="expected 1, actual 2\n")
    monkeypatch.setattr(
        "difftest.commands.reproducer.reproduce", lambda *_: Reproduction(reason=None, script=script)
    )
    corpus = Corpus(folder.parent)
    finding = changed(FINDING, fingerprint=folder.name, backend="torch_ddp", case=a_case().id)
    corpus.save(finding, a_case())
    return difftest("reproducer", folder, "--no-artifacts", "--trust")


def test_a_reproducer_is_known_to_the_later_commands(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reproduced(folder, monkeypatch).return_value == 0
    drafted = difftest("draft", folder)
    assert (drafted.return_value, drafted.stderr) == (0, "")
    written = (folder / "issue.md").read_text()
    assert "`python script.py` prints `expected 1, actual 2`" in written
    assert "**not run** where this draft was written" not in written
    bisected(folder)
    assert (folder.parent.parent / "ran").exists()


@pytest.mark.parametrize("changed_file", [SCRIPT, OUTPUT])
def test_a_draft_says_that_a_changed_script_was_not_run_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch, changed_file: str
) -> None:
    reproduced(folder, monkeypatch)
    with (folder / changed_file).open("a") as file:
        file.write("# planted\n")
    drafted = difftest("draft", folder)
    assert "was not run here, or it or its output was changed since" in drafted.stderr
    text = (folder / "issue.md").read_text()
    assert "It was **not run** where this draft was written" in text
    assert "was run before" not in text


def test_without_a_folder_for_the_users_state_nothing_is_trusted_and_the_user_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/dev/null")
    with pytest.raises(
        InfrastructureError, match=r"/dev/null/\.local/state/difftest/scripts.*XDG_STATE_HOME"
    ):
        own_scripts.remember("a-b-c-00000000", "text", "output")
    result = reproduced(folder, monkeypatch)
    assert result.return_value == 0
    assert "name a folder that can be written in the variable XDG_STATE_HOME" in result.stderr
    assert "--trust" in str(bisected(folder).exception)
