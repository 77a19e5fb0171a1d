"""The command line: a command is a file in `difftest.commands`, found by its name.

Exit status: 0 nothing to report, 1 what was asked to fail on was found, 2 wrong usage, 3 infrastructure failed.
"""

import sys
from typing import NoReturn

import click

from difftest import __version__, commands, plugins
from difftest.errors import InfrastructureError, UsageError

COMMANDS = "difftest.commands"
WRONG_USAGE = 2
INFRASTRUCTURE = 3
EXTRAS = {"ray": "cluster", "torch": "xla", "torch_xla": "xla"}
"""Which extra brings a framework."""


class Commands(click.Group):
    """Loads a command's module only when it is called: `difftest --help` needs none of the frameworks."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The files in `difftest.commands`."""
        del ctx
        return list(plugins.names(COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The `command` of the file called `cmd_name`."""
        del ctx
        if cmd_name not in plugins.names(COMMANDS):
            return None
        return commands.load(cmd_name)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="difftest")
def difftest() -> None:
    """Differential testing of distributed PyTorch: the same training on CUDA and on XLA, and where they part."""


def main() -> NoReturn:
    """Runs the command line; errors a user or the machine caused become one line and an exit status."""
    try:
        sys.exit(difftest.main(standalone_mode=False) or 0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except UsageError as error:
        _say(error, WRONG_USAGE)
    except InfrastructureError as error:
        _say(error, INFRASTRUCTURE)
    except ModuleNotFoundError as error:
        _say(_missing(error), INFRASTRUCTURE)
    except OSError as error:  # a full disk, a folder that may not be written
        _say(error, INFRASTRUCTURE)


def _missing(error: ModuleNotFoundError) -> Exception:
    """A framework that is not installed, with the command that installs it; any other missing module is our own fault."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        raise error
    return InfrastructureError(
        f"this command needs {package}, which is not installed: pip install 'difftest[{EXTRAS[package]}]'"
    )


def _say(error: Exception, status: int) -> NoReturn:
    click.echo(f"difftest: {error}", err=True)
    sys.exit(status)
