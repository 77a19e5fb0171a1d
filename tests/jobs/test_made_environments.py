"""`difftest environments`: what it announces, makes, lists and removes, and how a backend names one."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from difftest.commands import environments as command
from difftest.ground import installed, made_environments
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.installed import recipes
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
    assert "there already" in called("make", "newest")
    assert len(calls) == 2
    assert "made  newest" in called("list")
    assert [*json.loads(called("list", "--json"))["made"]] == ["newest"]
    called("remove", "newest")
    assert not (home / "newest").exists()


def test_any_torch_can_be_named_and_nothing_else(home: Path, calls: list[list[str]]) -> None:
    called("make", "torch==2.12.1")
    assert made_environments.names() == ("torch_2.12.1",)
    for wrong in ("torch==", "torch>=2.12", "torch==2;rm", "jax==1", "../newest"):
        with pytest.raises(
            UsageError, match="allowed: newest, torch_tpu, torch_xla, torchax, torch==VERSION"
        ):
            recipes.recipe(wrong)


def test_a_full_disk_is_reported_before_anything_is_installed(home: Path, calls: list[list[str]]) -> None:
    huge = recipes.Recipe(about="", requirements=(), gibibytes=10**9)
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
