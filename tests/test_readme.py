"""The README tells the truth: its commands exist and run, its tables are the program's own."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
SHELL = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
LINES = [
    part.split("#")[0].strip() for block in SHELL for line in block.splitlines() for part in line.split("&&")
]
COMMANDS = sorted({line for line in LINES if line.startswith("difftest ")})
QUERY = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(*words: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "difftest", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_shown_command_knows_the_options_it_is_shown_with(command: str) -> None:
    words = shlex.split(command)[1:]
    helped = run(words[0], "--help")
    assert helped.returncode == 0, helped.stderr
    for word in words:
        if word.startswith("--"):
            assert word in helped.stdout


def test_the_two_commands_install_what_the_project_declares() -> None:
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    for extras in re.findall(r'"\.\[(.*?)\]"', README):
        for extra in extras.split(","):
            assert f"\n{extra} = [" in project
    assert "constraints.txt" in README


def test_ci_calls_the_test_command_of_the_readme() -> None:
    ci = (Path(__file__).parent.parent / ".ci" / "run").read_text()
    install, test = '-c constraints.txt -e ".[xla,cluster,test]"', "pytest"
    assert any(install in block and block.strip().endswith(f"&& {test}") for block in SHELL)
    assert install in ci
    assert f"\n{test}\n" in ci


def test_the_column_table_is_the_programs_own() -> None:
    from reports.frame import describe  # noqa: PLC0415

    assert describe() in README


@pytest.mark.slow
def test_the_support_table_is_the_programs_own() -> None:
    told = run("support")
    table = told.stdout.split("\n\n")[0]
    assert table in README


@pytest.mark.slow
def test_the_commands_that_need_no_campaign_run() -> None:
    for command in ("doctor", "list backends", "list paths", "list checks", "list formats", "support"):
        done = run(*command.split())
        assert done.returncode == 0, done.stderr
        assert done.stdout


@pytest.mark.slow
@pytest.mark.xla
def test_the_main_job_replay_report_and_query_run_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quick start, with fewer cases: the first meets faults that the ledger knows, which make no run red."""
    pytest.importorskip("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    monkeypatch.chdir(tmp_path)
    main = next(line for line in COMMANDS if line.startswith("difftest run"))
    done = run(*shlex.split(main.replace("--cases 40", "--cases 1"))[1:])
    assert done.returncode == 0, done.stderr
    finding = next(path.parent for path in (tmp_path / "runs/first/corpus").glob("*/finding.json"))
    assert run("replay", str(finding.relative_to(tmp_path))).returncode == 1
    assert run("report", "runs/first", "--format", "html").returncode == 0
    exec(QUERY[0], {})  # noqa: S102  the README's own three lines
