"""Printing a command's result as JSON, and writing a file that the user named."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from difftest.records.disk import cannot_write, replace_file


def print_json(result: Mapping[str, Any]) -> None:
    """Prints one JSON object on standard output, keys sorted."""
    click.echo(json.dumps(result, indent=2, sort_keys=True))


def write_text(file: Path, text: str) -> None:
    """Replaces `file` in one step, so that no reader sees half of it; fails with `cannot_write`."""
    try:
        replace_file(file, text.encode())
    except OSError as error:
        raise cannot_write(repr(str(file)), error, "give a file in a folder that can be written") from error
