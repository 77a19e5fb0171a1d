"""Printing a command's result as JSON, and writing a file that the user named."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from difftest.errors import UsageError
from difftest.records.disk import replace_file


def print_json(result: Mapping[str, Any]) -> None:
    """Prints one JSON object on standard output, keys sorted."""
    click.echo(json.dumps(result, indent=2, sort_keys=True))


def write_text(file: Path, text: str) -> None:
    """Replaces `file` in one step, so that no reader sees half of it; `UsageError` when that fails."""
    try:
        replace_file(file, text.encode())
    except OSError as error:
        msg = f"cannot write {str(file)!r}: {error.strerror}; give a file in a folder that can be written"
        raise UsageError(msg) from error
