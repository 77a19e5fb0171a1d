"""Options and checks that several commands share."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

import click

from difftest import plugins
from difftest.cases.case import Case
from difftest.cases.layout import MOST_RANKS
from difftest.errors import UsageError

RANKS_PER_CPU = 8
"""How many ranks a CPU can carry: more starve in their collectives (16 on 2 CPUs were tried)."""

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on standard output and nothing else there."
)


class Names(click.ParamType[tuple[str, ...]]):
    """A comma-separated list of plug-ins of one package."""

    name = "a,b"

    def __init__(self, package: str) -> None:
        self._package = package

    def convert(
        self,
        value: Any,  # noqa: ANN401
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, ...]:
        """The names, all known; wrong usage otherwise."""
        if isinstance(value, tuple):
            return value
        try:
            return self._known(tuple(part.strip() for part in value.split(",")))
        except UsageError as error:
            self.fail(str(error), param, ctx)

    def _known(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return plugins.require(self._package, names)


class Backends(Names):
    """A comma-separated list of backends, each with its environment where it has one (`xla_spmd@2.8`)."""

    def __init__(self) -> None:
        super().__init__("workers.backends")

    def _known(self, names: tuple[str, ...]) -> tuple[str, ...]:
        from workers.backends import candidates

        return tuple(candidates(names))


class Duration(click.ParamType[float]):
    """A time such as 90s, 10m or 2h, in seconds; none is no time, for who asks for a budget of 0 does not mean one without end."""

    name = "10m"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Seconds; wrong usage for anything else."""
        if isinstance(value, float):
            return value
        told = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", value)
        if not told or not float(told[1]):
            self.fail(
                f"{value!r} is no duration; allowed: a number above 0 and s, m or h, such as 10m", param, ctx
            )
        return float(told[1]) * UNITS[told[2]]


def most_ranks() -> int:
    """The largest world size this machine allows."""
    return min(MOST_RANKS, RANKS_PER_CPU * (os.cpu_count() or 1))


def check_world_size(wanted: int) -> None:
    """Wrong usage where this machine does not allow meshes of so many ranks."""
    if not 1 <= wanted <= most_ranks():
        msg = f"--max-world-size is {wanted}; this machine allows 1 to {most_ranks()}"
        raise click.UsageError(msg)


def check_ranks(case: Case) -> Case:
    """`case`, or `UsageError` when its mesh is larger than this machine allows."""
    if case.world_size > most_ranks():
        msg = f"case {case.id} has a mesh of {case.world_size} ranks; this machine allows at most {most_ranks()}"
        raise UsageError(msg)
    return case


def print_json(known: Mapping[str, Any]) -> None:
    """One object on standard output."""
    click.echo(json.dumps(known, indent=2, sort_keys=True))
