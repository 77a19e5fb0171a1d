"""The commands, one file each: a module whose `command` is a `click.Command` of the same name.

To add a command, add a file here that satisfies `CommandModule`; there is no list to extend. A command
imports the packages with heavy dependencies inside its function, so that help needs none of them.
"""

from enum import StrEnum
from typing import Protocol, cast

import click

from difftest.ground import plugins


class Group(StrEnum):
    """What a user wants of a command: the headings of `difftest --help`, in this order."""

    FIND = "Find faults"
    UNDERSTAND = "Understand a finding"
    REPORT = "Report it"
    ASK = "Ask about this machine and this program"


class CommandModule(Protocol):
    """What a file in this folder declares."""

    GROUP: Group

    @property
    def command(self) -> click.Command:
        """The command, or the group of them."""


def load(name: str) -> click.Command:
    """The command called `name`; `UsageError` when there is none."""
    return module(name).command


def module(name: str) -> CommandModule:
    """The module of the command called `name`; `UsageError` when there is none."""
    return cast("CommandModule", plugins.load(__name__, name))
