"""The command line, called in this process as a user calls the program."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from difftest.cli import main


class Result(NamedTuple):
    """What a command printed on both streams, and its exit status."""

    status: int
    output: str


def command(*arguments: object) -> Result:
    """Runs a command in this process; any exception but the end of the program fails the test."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
        patch.setattr(sys, "argv", ["difftest", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert isinstance(ended.value.code, int)
    return Result(ended.value.code, printed.getvalue())
