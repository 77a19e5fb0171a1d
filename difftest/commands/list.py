"""`difftest list`: the plug-ins of one kind, with what each is for."""

import ast

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
    """List the backends, paths, checks or formats, each with its purpose.

    The star marks the paths that `difftest run` takes where --paths names none.
    """
    # Parsed: importing a plug-in may need a package that is not installed
    parsed = {
        name: ast.parse(plugins.file(KINDS[kind], name).read_text()) for name in plugins.names(KINDS[kind])
    }
    about = {name: (ast.get_docstring(tree) or "").partition("\n")[0] for name, tree in parsed.items()}
    if as_json:
        print_json({kind: about})
    else:
        # A path declares so that it runs where no path is named.
        marked = {name for name, tree in parsed.items() if "DEFAULT = True" in map(ast.unparse, tree.body)}
        width = max(map(len, about), default=0)
        mark = {name: ("* " if name in marked else "  ") if marked else "" for name in about}
        click.echo("\n".join(f"{name:<{width}}  {mark[name]}{line}" for name, line in about.items()))
