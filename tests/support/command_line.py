"""The command line, called in this process as a user calls the program."""

import io
import json
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import pytest

from difftest.cli import main


class Result(NamedTuple):
    """What a command printed on both streams, and its exit status."""

    status: int
    output: str


def command(*arguments: object) -> Result:
    """Runs a command in this process; any exception but the end of the program fails the test."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        status = _status(arguments)
    return Result(status, printed.getvalue())


def answered(*arguments: object) -> tuple[int, dict[str, Any]]:
    """The exit status of a command with `--json`, and what it printed on standard output."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = _status([*arguments, "--json"])
    return status, json.loads(printed.getvalue())


def _status(arguments: Iterable[object]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["difftest", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert isinstance(ended.value.code, int)
    return ended.value.code
