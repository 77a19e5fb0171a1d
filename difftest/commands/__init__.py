"""The commands, one file each: a module whose `command` is a `click.Command` of the same name.

To add a command, add a file here that satisfies `CommandModule`; there is no list to extend. A command
imports the packages with heavy dependencies inside its function, so that help needs none of them.
"""

from typing import Protocol

import click

from difftest import plugins


class CommandModule(Protocol):
    """What a file in this folder declares."""

    @property
    def command(self) -> click.Command:
        """The command, or the group of them."""


def load(name: str) -> click.Command:
    """The command called `name`; `UsageError` when there is none."""
    module: CommandModule = plugins.load(__name__, name)
    return module.command
