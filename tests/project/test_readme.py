"""README.md and docs/ are true: their commands exist and run, and CI runs the README's test command."""

import re
import shlex
import subprocess
import sys

import pytest
from command_line import command
from pages import FRONT, PAGES, ROOT, blocks, shell_commands

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


def test_ci_runs_the_same_tests_as_the_command_in_the_readme() -> None:
    """CI runs in two parts the tests that `pytest` alone runs, which are all but the nightly ones."""
    ci = (ROOT / ".ci" / "run").read_text()
    install, test = '-c constraints.txt -e ".[xla,cluster,test]"', "pytest"
    assert any(install in block and block.strip().endswith(f"&& {test}") for block in blocks(FRONT, "sh"))
    assert install in ci
    parts = re.findall(r'^(?:nice )?pytest .*?-m "(.*?)"', ci, re.MULTILINE)
    assert parts == ["not slow and not long and not browser", "(slow or long or browser) and not nightly"]
    assert "-m 'not nightly'" in (ROOT / "pyproject.toml").read_text()


@pytest.mark.slow
def test_the_commands_that_need_no_campaign_run() -> None:
    for words in ("doctor", "list backends", "list paths", "list checks", "list formats", "support"):
        done = run(*words.split())
        assert done.returncode == 0, done.stderr
        assert done.stdout
