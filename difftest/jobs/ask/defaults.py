"""Defaults of options: `[tool.difftest]` in the working directory's `pyproject.toml`, or its `difftest.toml`.

Keys are options without their dashes, such as `max-world-size`. Those at the top are for every command that
has the option, those in a table with a command's name for that command alone:

    [tool.difftest]
    backends = ["torch_ddp", "xla_spmd"]

    [tool.difftest.nightly]
    budget = "2h"

What a command is given on its line comes first. A key of several meanings, as `out`, belongs into a command's
table. Options that decide what runs or what counts (`difftest.jobs.ask.options.Deciding`) are refused:
the working directory may be somebody else's.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from difftest.ground import plugins
from difftest.ground.errors import DamagedError, UsageError
from difftest.jobs.ask.options import Deciding
from difftest.records import read_limits

OWN, SHARED = "difftest.toml", "pyproject.toml"
"""The file of defaults alone comes before the project's."""

MOST_BYTES = 2**16
"""The most of such a file: what is deeply nested takes time by the square of its size."""


def read(folder: Path) -> tuple[str, Mapping[str, Any]]:
    """The table of defaults in a folder, and the file that it is from; both are empty where there is none.

    `UsageError` for a file that cannot be read.
    """
    own, shared = folder / OWN, folder / SHARED
    if own.is_file():
        return OWN, _toml(own)
    table = _toml(shared).get("tool", {}).get("difftest", {}) if shared.is_file() else {}
    return (SHARED, table) if table else ("", {})


def of_commands(
    file: str, table: Mapping[str, Any], commands: Mapping[str, click.Command]
) -> dict[str, dict[str, Any]]:
    """The defaults in the table of a file, by command and parameter, as click takes them.

    `UsageError` for a key that is neither an option nor a command, for one that the command does not have,
    and for an option that is given on the line alone.
    """
    options = {name: _options(command) for name, command in commands.items()}
    every = {option for own in options.values() for option in own}
    defaults = dict[str, dict[str, Any]]()
    for key, value in table.items():
        if isinstance(value, dict):
            _require(file, "command", key, commands)
            for option in value:
                _require(file, f"option of `difftest {key}`", option, options[key])
                _refuse_deciding(file, option, [commands[key]])
            continue
        _require(file, "option", key, every)
        _refuse_deciding(file, key, commands.values())
        holders = {name: own[key] for name, own in options.items() if key in own}
        _require_one_meaning(file, key, [commands[name] for name in holders])
        for name, parameter in holders.items():
            defaults.setdefault(name, {})[parameter] = _given(value)
    for key, value in table.items():
        if isinstance(value, dict):
            defaults.setdefault(key, {}).update(
                {options[key][name]: _given(one) for name, one in value.items()}
            )
    return defaults


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_limits.read(file, MOST_BYTES).decode())
    except (DamagedError, OSError, UnicodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        msg = f"cannot read {file.name}: {error}"
        raise UsageError(msg) from error


def _options(command: click.Command) -> dict[str, str]:
    """The parameters of a command by the option's name without dashes."""
    named = [param for param in command.params if isinstance(param, click.Option)]
    return {
        option.lstrip("-"): param.name
        for param in named
        for option in param.opts
        if option.startswith("--") and param.name
    }


def _given(value: object) -> str:
    """A value as the command line would give it, where everything is a text: a list of names is one."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _require_one_meaning(file: str, key: str, commands: Iterable[click.Command]) -> None:
    """`UsageError` for an option that takes another type of value from command to command."""
    params = [param for command in commands for param in command.params if f"--{key}" in param.opts]
    if len({type(param.type) for param in params}) > 1:
        msg = f"{file}: option {key!r} differs from command to command; give it in the table of one"
        raise UsageError(msg)


def _refuse_deciding(file: str, key: str, commands: Iterable[click.Command]) -> None:
    """`UsageError` for an option that decides what runs or what counts."""
    params = (param for command in commands for param in command.params if f"--{key}" in param.opts)
    if any(isinstance(param, Deciding) for param in params):
        msg = (
            f"{file}: option {key!r} decides what runs or what counts, and a file in the working directory "
            f"may be somebody else's; give it on the line: --{key}"
        )
        raise UsageError(msg)


def described(file: str, defaults: Mapping[str, Any]) -> str:
    """A line about the defaults of one command that come from a file."""
    pairs = ", ".join(f"{name.replace('_', '-')} = {value!r}" for name, value in defaults.items())
    return f"defaults of {str(Path(file).resolve())!r}: {pairs}"


def _require(file: str, kind: str, key: str, allowed: Iterable[str]) -> None:
    """`UsageError` for a key that is not allowed, with the nearest one that is."""
    allowed = sorted(allowed)
    if key not in allowed:
        near = (
            f"did you mean {nearest!r}?"
            if (nearest := plugins.like(key, allowed))
            else f"allowed: {', '.join(allowed)}"
        )
        msg = f"{file}: unknown {kind} {key!r}; {near}"
        raise UsageError(msg)
