"""README.md and docs/ are true: their commands exist and run, and CI runs the README's test command."""

import re
import shlex
import subprocess
import sys
from argparse import Namespace

import pytest
from command_line import command
from files_together import scope
from pages import FRONT, PAGES, ROOT, blocks, shell_commands
from side_by_side import processes, runs_all

COMMANDS = sorted({line for page in PAGES for line in shell_commands(page) if line.startswith("difftest ")})
MOST_LINES_OF_THE_FRONT_PAGE = 160


def run(*words: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "difftest", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def test_every_documented_command_has_the_options_it_is_shown_with() -> None:
    assert not {line: unknown for line in COMMANDS if (unknown := unknown_options(line))}


def unknown_options(line: str) -> list[str]:
    """Return the options in a documented command that its help does not name."""
    words = shlex.split(line)[1:]
    helped = command(words[0], "--help")
    assert helped.status == 0, helped.output
    return [word for word in words if word.startswith("--") and word not in helped.output]


def test_every_command_is_documented() -> None:
    shown = {shlex.split(line)[1] for line in COMMANDS}
    commands = {file.stem for file in (ROOT / "difftest" / "commands").glob("[!_]*.py")}
    assert shown == commands, "a shell block of README.md or of docs/ shows each command"


def test_the_front_page_is_short() -> None:
    assert FRONT.read_text().count("\n") <= MOST_LINES_OF_THE_FRONT_PAGE


def test_the_documented_extras_exist_in_the_project() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for page in PAGES:
        for extras in re.findall(r'"\.\[(.*?)\]"', page.read_text()):
            for extra in extras.split(","):
                assert f"\n{extra} = [" in project
    assert "constraints.txt" in FRONT.read_text()


def test_ci_runs_the_command_of_the_readme() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    install, test = '-c constraints.txt -e ".[xla,cluster,test]"', "pytest"
    assert any(install in block and block.strip().endswith(f"&& {test}") for block in blocks(FRONT, "sh"))
    assert install in ci
    assert re.findall(r"^.*\bpytest\b.*$", ci.partition("set -euo pipefail")[2], re.MULTILINE) == [
        f"{test} || status=$?"
    ]


def test_there_are_more_processes_than_cpus_where_the_memory_allows() -> None:
    assert [processes(2, gib << 30) for gib in (24, 15, 8, 1)] == [5, 3, 2, 1]


def test_files_that_share_pythons_which_import_torch_stay_in_one_process() -> None:
    drafts, upstream, other = (
        scope(ROOT / "tests" / file)
        for file in ("reports/test_ten_drafts.py", "findings/test_upstream.py", "project/test_figures.py")
    )
    assert drafts == upstream != other


ALL = {
    "keyword": "",
    "markexpr": "not nightly",
    "lf": False,
    "collectonly": False,
    "usepdb": False,
    "numprocesses": None,
}
"""The options of `pytest` alone."""


def test_all_tests_run_side_by_side_and_chosen_ones_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    assert "-m 'not nightly'" in (ROOT / "pyproject.toml").read_text()
    assert runs_all(Namespace(**ALL), named=False)
    assert not runs_all(Namespace(**ALL), named=True)
    chosen = {"keyword": "a_word", "markexpr": "nightly", "lf": True, "collectonly": True, "usepdb": True}
    for name, value in (*chosen.items(), ("numprocesses", 0)):
        assert not runs_all(Namespace(**ALL | {name: value}), named=False), name
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    assert not runs_all(Namespace(**ALL), named=False)


@pytest.mark.slow
def test_the_commands_that_need_no_campaign_run() -> None:
    for words in ("doctor", "list backends", "list paths", "list checks", "list formats", "support"):
        done = run(*words.split())
        assert done.returncode == 0, done.stderr
        assert done.stdout
