"""Where the scripts of a backend run: in this Python, in that of its environment, or nowhere."""

import sys
from pathlib import Path

import pytest

from difftest.ground.errors import UsageError
from difftest.jobs.filing.execution import python_of
from workers.cluster import environments


def listed(folder: Path, monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    file = folder / "environments.toml"
    file.write_text(f'[[environment]]\nbackends = "*@other"\n{more}\n')
    monkeypatch.setenv(environments.VARIABLE, str(file))


def test_scripts_run_in_the_environment_of_their_backend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.touch()
    listed(tmp_path, monkeypatch, f'python = "{python}"')
    assert python_of("torch_ddp@other") == str(python)
    assert python_of("torch_ddp") == sys.executable


@pytest.mark.parametrize(
    ("more", "why"),
    [('python = "/nowhere/python"', "its Python is /nowhere/python"), ("nodes = 2", "it names no Python")],
)
def test_an_environment_of_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, why: str
) -> None:
    listed(tmp_path, monkeypatch, more)
    with pytest.raises(UsageError, match=f"which is not on this machine: {why}"):
        python_of("torch_ddp@other")
