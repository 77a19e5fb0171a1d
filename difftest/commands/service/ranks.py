"""What this machine can run: how many ranks at a time, and a user's module as the case has it."""

import os

import click

from difftest.cases.case import Case
from difftest.cases.layout import MOST_RANKS
from difftest.errors import UsageError
from difftest.sources import require_unchanged

RANKS_PER_CPU = 8
"""How many ranks a CPU can carry: with more, they starve in collectives (tried: 16 ranks on 2 CPUs)."""


def most_ranks() -> int:
    """The largest world size that this machine allows."""
    return min(MOST_RANKS, RANKS_PER_CPU * (os.cpu_count() or 1))


def check_world_size(max_world_size: int) -> None:
    """Raises `click.UsageError` when this machine cannot run meshes of up to `max_world_size` ranks."""
    if not 1 <= max_world_size <= most_ranks():
        msg = f"--max-world-size is {max_world_size}; this machine allows 1 to {most_ranks()}"
        raise click.UsageError(msg)


def check_runnable(case: Case) -> Case:
    """`case` itself; `UsageError` when its mesh has more ranks than this machine allows.

    And where it is of a module of the user's, whose source is not here, or is another one.
    """
    if case.world_size > most_ranks():
        mesh = f"case {case.id} has a mesh of {case.world_size} ranks"
        msg = f"{mesh}; this machine allows at most {most_ranks()}"
        raise UsageError(msg)
    if case.model.own:
        require_unchanged(case.model.own.files)
    return case


def is_runnable(case: Case) -> bool:
    """Whether `check_runnable` lets `case` pass."""
    try:
        check_runnable(case)
    except UsageError:
        return False
    return True
