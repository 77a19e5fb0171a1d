"""`difftest list`: the plug-ins of one kind, with what each is for."""

import ast
from pathlib import Path

import click

from difftest.commands import Group
from difftest.ground import plugins
from difftest.jobs.ask.options import Json, own_options
from difftest.jobs.screen.output import print_json

KINDS = {
    "backends": "workers.backends",
    "paths": "generators.paths",
    "checks": "difftest.judge.checks",
    "formats": "reports.formats",
}


GROUP = Group.ASK


class PluginKind(click.Choice[str]):
    """One of `KINDS`; a mistyped one is answered with the nearest."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The kind; wrong usage where there is none such."""
        if nearest := plugins.like(value, KINDS) if value not in KINDS else "":
            self.fail(f"{value!r}; did you mean {nearest!r}? Allowed: {', '.join(KINDS)}.", param, ctx)
        return super().convert(value, param, ctx)


@click.command("list")
@click.argument("kind", type=PluginKind(tuple(KINDS)))
@own_options
def command(kind: str, *, as_json: Json) -> None:
    """List the backends, paths, checks or formats, each with its purpose."""
    about = {name: _first_line(plugins.file(KINDS[kind], name)) for name in plugins.names(KINDS[kind])}
    if as_json:
        print_json({kind: about})
    else:
        width = max(map(len, about), default=0)
        click.echo("\n".join(f"{name:<{width}}  {line}" for name, line in about.items()))


def _first_line(file: Path) -> str:
    """The first line of a module's docstring, read without importing what may need a missing package."""
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]
