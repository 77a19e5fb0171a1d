"""What this machine can run: how many ranks at a time, and a user's module as the case has it."""

import os

import click

from difftest.cases.case import Case
from difftest.cases.layout import MOST_RANKS
from difftest.ground.errors import UsageError
from difftest.ground.sources import require_unchanged
from difftest.jobs.ask.consent import require_own_module
from difftest.records.own_cases import is_own_module

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


def check_runnable(case: Case, *, trust: bool = False) -> Case:
    """`case` itself; `UsageError` when its mesh has more ranks than this machine allows.

    And where it is of a module of the user's, whose source is not here, or is another one, or which this user
    never ran and does not agree to run; with `trust` the user agrees.
    """
    require_possible(case)
    if case.model.own:
        require_own_module(case.model.own, trust=trust)
    return case


def is_runnable(case: Case) -> bool:
    """Whether `check_runnable` lets `case` pass without a question."""
    try:
        require_possible(case)
    except UsageError:
        return False
    return case.model.own is None or is_own_module(case.model.own)


def require_possible(case: Case) -> None:
    """`UsageError` where this machine has too few ranks for a case, or not the source of a user's module."""
    if case.world_size > most_ranks():
        mesh = f"case {case.id} has a mesh of {case.world_size} ranks"
        msg = f"{mesh}; this machine allows at most {most_ranks()}"
        raise UsageError(msg)
    if case.model.own:
        require_unchanged(case.model.own.files)
