"""`difftest environments`: other versions of torch and XLA, each in an environment of its own."""

import shutil
import sys
from pathlib import Path

import click

from difftest.commands import Group
from difftest.ground import made_environments
from difftest.ground.errors import UsageError
from difftest.jobs.ask.options import Json, own_options
from difftest.jobs.installed import pythons
from difftest.jobs.installed.environments import make_of
from difftest.jobs.installed.recipes import ALLOWED, RECIPES, EnvironmentRecipe, everything, recipe
from difftest.jobs.screen.output import print_json

GROUP = Group.ASK


@click.group("environments")
def command() -> None:
    """Make, list and remove environments with other versions of torch and XLA.

    `torch_ddp@newest` is the backend torch_ddp in the environment newest.
    """


@command.command("make", help=f"Make an environment. NAME is one of: {ALLOWED}.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask on the terminal.")
def make_one(name: str, *, yes: bool) -> None:
    """Makes an environment, unless it is there already with the same requirements."""
    called, chosen = recipe(name)
    folder, requirements = made_environments.home() / called, everything(chosen)
    if made_environments.requirements(folder) == requirements:
        click.echo(f"{called} exists already: {folder}")
        return
    make_of(chosen, folder, requirements, lambda: _announce(called, chosen, folder, yes=yes))
    example = f"--backends torch_ddp@{called}, for example" if chosen.for_backends else "scripts run in it"
    click.echo(f"{called} is ready: {example}")


def _announce(called: str, chosen: EnvironmentRecipe, folder: Path, *, yes: bool) -> None:
    """Says what is made, and asks on the terminal."""
    click.echo(
        f"{called}: {chosen.about}\n"
        f"  installs {', '.join(chosen.requirements)}\n{_of_python(chosen.python)}"
        f"  takes about {chosen.gibibytes} GiB in {folder}, and {chosen.minutes} minutes or more",
        err=True,
    )
    if not yes and sys.stdin.isatty():
        click.confirm("Continue?", default=True, abort=True, err=True)


def _of_python(least: str) -> str:
    words = pythons.announced(least)
    return f"  with {words}\n" if words else ""


@command.command("list")
@own_options
def list_all(*, as_json: Json) -> None:
    """List the environments that were made, and those that can be."""
    there = {
        name: list(made_environments.requirements(made_environments.home() / name))
        for name in made_environments.names()
    }
    if as_json:
        print_json({"folder": str(made_environments.home()), "made": there, "can be made": [*RECIPES]})
        return
    for name in sorted({*there, *RECIPES}):
        state = "made" if name in there else "    "
        about = RECIPES[name].about if name in RECIPES else (there[name] or [""])[0]
        click.echo(f"{state}  {name:<12} {about}")
    click.echo(f"\nin {made_environments.home()}")


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove an environment that was made."""
    if name not in made_environments.names():
        there = ", ".join(made_environments.names()) or "none"
        msg = f"no environment is called {name!r}; there are: {there}"
        raise UsageError(msg)
    shutil.rmtree(made_environments.home() / name)
    click.echo(f"{name} is removed")
