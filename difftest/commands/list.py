"""`difftest list`: the plug-ins of one kind."""

import ast
import importlib.util
from pathlib import Path

import click

from difftest import plugins
from difftest.commands._options import json_option, print_json

KINDS = {"backends": "workers.backends", "paths": "generators.paths", "checks": "difftest.checks", "formats": "reports.formats"}


@click.command("list")
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@json_option
def command(kind: str, *, as_json: bool) -> None:
    """List the backends, paths, checks or formats there are, with what each is for."""
    about = {}
    for name in plugins.names(KINDS[kind]):
        found = importlib.util.find_spec(f"{KINDS[kind]}.{name}")
        about[name] = _first_line(found.origin if found else None)
    if as_json:
        print_json({kind: about})
    else:
        width = max(map(len, about), default=0)
        click.echo("\n".join(f"{name:<{width}}  {line}" for name, line in about.items()))


def _first_line(file: str | None) -> str:
    """The first line of a module's docstring, read without importing it: a plug-in may need what is not installed."""
    return (ast.get_docstring(ast.parse(Path(file).read_text())) or "").split("\n")[0] if file else ""
