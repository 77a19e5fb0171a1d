"""What helps at a terminal: groups of commands, nearest names, completion, and defaults from a file."""

from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from command_line import command

from difftest import cli, commands
from difftest.ground import plugins
from difftest.ground.errors import UsageError

NAMES = plugins.names(cli.COMMANDS)


def completed(*arguments: str) -> list[str]:
    """What the shell offers for the last of some arguments."""
    shell = ShellComplete(cli.difftest, {}, "difftest", "_DIFFTEST_COMPLETE")
    return [item.value for item in shell.get_completions(list(arguments[:-1]), arguments[-1])]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_help_has_every_command_once_in_its_group_with_its_whole_sentence(width: int) -> None:
    text = CliRunner().invoke(cli.difftest, ["--help"], terminal_width=width).output
    words = " ".join(text.split())
    for name in NAMES:
        sentence = commands.load(name).get_short_help_str(1000)
        assert words.count(f"{name} {sentence}") == 1
        assert "..." not in sentence
    places = [text.index(f"{group}:") for group in commands.Group]
    assert places == sorted(places)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "No such command 'rnu'. Did you mean 'run'?"),
        (["run", "--backends", "xla_spdm"], "unknown backend 'xla_spdm'; did you mean 'xla_spmd'? Allowed: "),
        (["run", "--paths", "tensor_paralel"], "did you mean 'tensor_parallel'?"),
        (["list", "frmats"], "'frmats'; did you mean 'formats'?"),
        (["run", "--backend", "torch_ddp"], "Did you mean '--backends'?"),
        (["unheard"], "No such command 'unheard'."),
    ],
)
def test_a_typo_is_answered_with_the_nearest_name(arguments: list[str], message: str) -> None:
    done = command(*arguments)
    assert done.status == 2
    assert message in done.output


def test_completion_knows_commands_options_backends_and_paths() -> None:
    assert completed("mini") == ["minimize"]
    assert "--backends" in completed("run", "--ba")
    assert completed("run", "--backends", "torch_d") == ["torch_ddp", "torch_dtensor"]
    assert completed("run", "--backends", "torch_ddp,torch_d") == ["torch_ddp,torch_dtensor"]
    assert completed("run", "--backends", "or") == [], "the oracle is no candidate"
    assert "tensor_parallel" in completed("run", "--paths", "tensor")


def given(folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, object]:
    """The parameters with which `difftest run` would start in a folder."""
    monkeypatch.chdir(folder)
    taken: dict[str, object] = {}
    monkeypatch.setattr(commands.load("run"), "callback", lambda **options: taken.update(options))
    done = CliRunner().invoke(cli.difftest, ["run", *arguments], standalone_mode=False)
    if done.exception:
        raise done.exception
    return taken


PROJECT = """
[tool.difftest]
backends = ["torch_ddp", "xla_spmd"]
max-world-size = 4

[tool.difftest.run]
cases = 7
twice-every = 0

[tool.difftest.nightly]
budget = "2h"
"""


def test_a_project_s_table_has_the_defaults_of_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    taken = SimpleNamespace(**given(tmp_path, monkeypatch))
    assert taken.backends == ("torch_ddp", "xla_spmd")
    assert (taken.max_world_size, taken.cases, taken.twice_every, taken.budget) == (4, 7, 0, None)
    assert given(tmp_path, monkeypatch, "--cases", "9")["cases"] == 9, "what is given comes first"
    (tmp_path / "difftest.toml").write_text("cases = 3\n")
    taken = SimpleNamespace(**given(tmp_path, monkeypatch))
    assert (taken.cases, taken.max_world_size) == (3, 8), "a file of its own comes before the project's"


def test_without_a_table_the_defaults_are_the_program_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other]\ncases = 1\n")
    assert given(tmp_path, monkeypatch)["max_world_size"] == 8


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("casses = 1", "difftest.toml: unknown option 'casses'; did you mean 'cases'?"),
        ("[rum]\ncases = 1", "difftest.toml: unknown command 'rum'; did you mean 'run'?"),
        ("[doctor]\ncases = 1", "unknown option of `difftest doctor` 'cases'; allowed: json"),
        ('out = "runs"', "option 'out' differs from command to command; give it in the table of one"),
        ("cases = ", "cannot read difftest.toml: "),
    ],
)
def test_a_wrong_table_is_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, message: str
) -> None:
    (tmp_path / "difftest.toml").write_text(table)
    with pytest.raises(UsageError) as error:
        given(tmp_path, monkeypatch)
    assert message in str(error.value)


def test_a_wrong_value_is_refused_as_on_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "difftest.toml").write_text("cases = 0")
    with pytest.raises(click.BadParameter, match="0 is not in the range"):
        given(tmp_path, monkeypatch)
