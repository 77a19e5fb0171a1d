"""`difftest models`: the models that `--model` takes by name, of the packages that are installed."""

import math
from collections.abc import Mapping

import click
import msgspec

from difftest.commands import Group
from difftest.ground.errors import UsageError
from difftest.jobs.ask.options import Json, own_options
from difftest.jobs.screen.output import print_json

GROUP = Group.ASK


@click.command("models")
@click.argument("source", required=False)
@own_options
def command(source: str | None, *, as_json: Json) -> None:
    """List the sources of named models, or the names of a SOURCE such as hf.

    SOURCE may also be a model, such as hf:llama: it is built small, and its inputs are printed.
    """
    if source and ":" in source:
        _print_model(source, as_json=as_json)
    elif source:
        from workers.isolate.described import listed

        answer = listed(source)
        if as_json:
            print_json({"source": source, "version": answer.version, "names": answer.names})
        else:
            click.echo("\n".join(answer.names))
    else:
        _print_sources(as_json=as_json)


def _print_sources(*, as_json: bool) -> None:
    from workers.isolate.described import sources

    rows = [_source(name) for name in sources()]
    if as_json:
        print_json({"sources": rows})
        return
    for row in rows:
        words = "{reason}" if "reason" in row else "{models} models, version {version}, such as {example}"
        click.echo(f"{row['source']}: {words.format_map(row)}")


def _source(name: str) -> Mapping[str, object]:
    """What a source has, or the reason why it has nothing here."""
    from workers.isolate import described

    try:
        listed = described.listed(name)
    except UsageError as error:
        return {"source": name, "models": 0, "reason": str(error)}
    example = f"{name}:{listed.example}"
    return {"source": name, "models": len(listed.names), "version": listed.version, "example": example}


def _print_model(source: str, *, as_json: bool) -> None:
    from workers.isolate.described import described

    layer = described(source, ()).layer
    if layer.recipe is None:
        msg = f"{source!r} is a file of yours; allowed: a name such as hf:llama"
        raise UsageError(msg)
    numbers = sum(math.prod(shape) for shape in layer.parameters.values())
    if as_json:
        print_json({"source": source, "numbers": numbers, "recipe": msgspec.to_builtins(layer.recipe)})
        return
    click.echo(f"{source}: {layer.built}, {len(layer.parameters)} parameters of {numbers} numbers")
    inputs = {feed.name: feed for feed in (*layer.recipe.inputs, layer.recipe.targets)}
    for name, feed in inputs.items():
        kind = "normal numbers" if feed.high is None else f"0 to {feed.high - 1}"
        click.echo(f"  {name}: ({', '.join(('rows', *map(str, feed.row)))}), {kind}")
    click.echo(f"  loss: {'its own' if layer.recipe.loss == 'own' else layer.recipe.loss}")
