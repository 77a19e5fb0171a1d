"""`difftest environments`: what it announces, makes, lists and removes, and how a backend names one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from difftest.commands import environments as command
from difftest.ground import installed, made_environments
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.installed import index, pythons, recipes
from workers.cluster import environments


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the environments, which is empty; no file of environments is configured."""
    monkeypatch.setenv(made_environments.VARIABLE, str(tmp_path / "made"))
    monkeypatch.delenv(environments.VARIABLE, raising=False)
    return tmp_path / "made"


@pytest.fixture
def calls(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The installer's commands, which are not run."""
    recorded = list[list[str]]()

    def pretend(call: list[str]) -> None:
        recorded.append(call)
        if "venv" in call:
            Path(call[-1]).mkdir()

    monkeypatch.setattr("difftest.jobs.installed.environments._call", pretend)
    monkeypatch.setattr(installed, "versions", lambda *names: dict.fromkeys(names, "2.60.0"))
    monkeypatch.setattr(index, "releases", lambda *_: ("2.12.1", "0.9.2"))
    return recorded


def called(*arguments: str) -> str:
    result = CliRunner().invoke(command.command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_an_environment_is_announced_made_once_listed_and_removed(home: Path, calls: list[list[str]]) -> None:
    announced = called("make", "newest")
    assert str(home / "newest") in announced
    assert "about 7 GiB" in announced
    assert "minutes" in announced
    assert {"torch==2.15.0", "ray==2.60.0"} <= {*calls[1]}
    assert any(part.startswith("msgspec") for part in calls[1]), "what difftest itself requires"
    assert not any("extra" in part for part in calls[1])
    assert "exists already" in called("make", "newest")
    assert len(calls) == 2
    assert "made  newest" in called("list")
    assert [*json.loads(called("list", "--json"))["made"]] == ["newest"]
    called("remove", "newest")
    assert not (home / "newest").exists()


def test_any_release_can_be_named_and_nothing_else(home: Path, calls: list[list[str]]) -> None:
    called("make", "torch==2.12.1")
    assert made_environments.names() == ("torch_2.12.1",)
    for wrong in ("torch==", "torch>=2.12", "torch==2;rm", "numpy==1", "../newest"):
        with pytest.raises(
            UsageError, match="allowed: newest, torch_tpu, torch_xla, torchax, jax, torch==VERSION"
        ):
            recipes.recipe(wrong)


def test_a_release_takes_the_place_of_that_in_its_recipe(calls: list[list[str]]) -> None:
    assert recipes.of_release("torch_xla", "2.12.1")[1].requirements[:2] == (
        "torch==2.12.1",
        "torch_xla==2.12.1",
    )
    name, jax = recipes.of_release("jax", "0.9.2")
    assert (name, jax.requirements) == ("jax_0.9.2", ("jax==0.9.2", "jaxlib==0.9.2"))


def test_an_environment_gets_the_python_of_its_recipe_and_says_so_first(
    home: Path, calls: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = a_python(tmp_path / "versions" / "3.12.1" / "bin" / "python3.12", "3.12.1")
    monkeypatch.setattr(pythons, "running", lambda: "3.11")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv(pythons.PYENV, str(tmp_path))
    for module in ("pythons", "environments"):
        monkeypatch.setattr(f"difftest.jobs.installed.{module}.find_uv", lambda: None)
    announced = called("make", "jax")
    assert f"with Python 3.12 or later: {later}" in announced
    assert calls[0][0] == str(later)
    assert not any(part.startswith("ray") for part in calls[1]), "scripts alone run there"


def test_a_python_that_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_python(tmp_path / "python3.12", "pyenv: python3.12: command not found", status=127)
    monkeypatch.setattr(pythons, "running", lambda: "3.11")
    monkeypatch.setattr(pythons, "find_uv", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(pythons.PYENV, str(tmp_path))
    with pytest.raises(InfrastructureError, match=r"Python 3\.12 or later is not here; .*uv"):
        pythons.installed("3.12")
    assert pythons.installed("3.11") == Path(sys.executable)


def a_python(file: Path, version: str, status: int = 0) -> Path:
    """A program that prints a version as Python does, and ends with `status`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\necho 'Python {version}'\nexit {status}\n")
    file.chmod(0o755)
    return file


def test_the_package_index_says_which_python_a_release_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"3.11": ("0.10.2",), "3.12": ("0.10.2", "0.12.0.1")}
    monkeypatch.setattr(index, "running", lambda: "3.11")
    monkeypatch.setattr(index, "releases", lambda _, python, *__: there.get(python, ()))
    assert index.python_of(["jaxlib==0.10.2"]) == ""
    assert index.python_of(["jax==0.12.0.1", "jaxlib==0.12.0.1"]) == "3.12"
    assert index.python_of(["jaxlib==0.12.0.1+cpu"]) == "3.12"
    assert index.python_of(["jaxlib==99"]) == "", "the installer says that there is none"


def test_releases_are_read_from_what_pip_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = "jaxlib (0.10.2)\nAvailable versions: 0.10.2+cpu, 0.10.2, 0.9.2, 0.10.0\n  INSTALLED: 0.7.1\n"

    def pretend(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[-3:] == ["--pre", "--extra-index-url", "file:///nightly"]
        return subprocess.CompletedProcess(command, 0, printed, "")

    monkeypatch.setattr("difftest.jobs.installed.index.subprocess.run", pretend)
    assert index.releases("jaxlib", address="file:///nightly") == ("0.9.2", "0.10.0", "0.10.2")


def test_a_full_disk_is_reported_before_anything_is_installed(home: Path, calls: list[list[str]]) -> None:
    huge = recipes.EnvironmentRecipe(about="", requirements=(), gibibytes=10**9)
    with pytest.raises(InfrastructureError, match="the environment needs 1000000000"):
        recipes.require_space(huge, home / "newest")


def test_a_backend_runs_in_the_environment_that_its_name_ends_with(
    home: Path, calls: list[list[str]]
) -> None:
    with pytest.raises(UsageError, match=r"'torch_ddp@newest'.*`difftest environments make`.*'newest'"):
        environments.of("torch_ddp@newest", ())
    called("make", "newest")
    environment = environments.of("torch_ddp@newest", ())
    assert environment.python == str(home / "newest" / "bin" / "python")
    assert environments.chosen(("torch_ddp@newest",))["torch_ddp@newest"] == environment.python
    variables = environment.options()["runtime_env"]["env_vars"]
    assert Path(variables["PYTHONPATH"].split(os.pathsep)[0], "difftest").is_dir()
    other = environments.Environment(backends="*@newest", python="/other")
    assert environments.of("torch_ddp@newest", (other,)) is other, "the file comes first"


def test_an_interrupted_environment_is_none(home: Path) -> None:
    (home / "newest").mkdir(parents=True)
    assert made_environments.python("newest") is None
    assert made_environments.names() == ()
