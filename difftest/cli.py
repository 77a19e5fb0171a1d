"""The command line: a command is a file in `difftest.commands`, found by its name.

Exit status: 0 nothing to report, 1 a result on which a command fails, 2 wrong usage, 3 infrastructure failed
or too little was compared, 130 interrupted.
"""

import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

import click

from difftest import __version__, commands
from difftest.ground import plugins
from difftest.ground.errors import InfrastructureError, StoppedError, UsageError
from difftest.ground.printable import printable
from difftest.jobs.ask import defaults
from difftest.jobs.campaign.interruption import STATUS, interrupt

COMMANDS = "difftest.commands"
CONTINUES = "the same command continues"
WHOLE = 300
"""More characters than the first sentence of any command's help has."""

FILE = "difftest.defaults"
"""Where click's context holds the name of the file of defaults."""

EXTRAS = {"ray": "cluster", "torch": "xla", "torch_xla": "xla"}
"""By package, the extra of this package that installs it."""


class Commands(click.Group):
    """Loads a command's module only when it is called: `difftest --help` needs no framework."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The files in `difftest.commands`."""
        del ctx
        return list(plugins.names(COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called `cmd_name`; None when there is none."""
        del ctx
        if cmd_name not in plugins.names(COMMANDS):
            return None
        return commands.load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called; wrong usage, with the nearest name, where there is none.

        Says which of its defaults come from a file.
        """
        if (
            args
            and self.get_command(ctx, args[0]) is None
            and (near := plugins.like(args[0], plugins.names(COMMANDS)))
        ):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near!r}?")
        name, command, rest = super().resolve_command(ctx, args)
        if given := (ctx.default_map or {}).get(name or ""):
            click.echo(defaults.described(ctx.meta[FILE], given), err=True)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by what a user wants of them, each with its whole first sentence."""
        named = {name: commands.module(name) for name in self.list_commands(ctx)}
        for group in commands.Group:
            own = {name: one.command for name, one in named.items() if one.GROUP is group}
            with formatter.section(str(group)):
                formatter.write_dl([(name, one.get_short_help_str(WHOLE)) for name, one in own.items()])

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  what the command returns
        """Calls the command; options that it is not given have the defaults of the working directory."""
        file, table = defaults.read(Path())
        if table:
            loaded = {name: commands.load(name) for name in self.list_commands(ctx)}
            ctx.default_map = defaults.of_commands(file, table, loaded)
            ctx.meta[FILE] = file
        return super().invoke(ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="difftest")
def difftest() -> None:
    """Differential testing of distributed PyTorch: the same training on CUDA and on XLA, compared."""


class _Printable:
    """A text stream on which nothing that is written can command the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes `text` with its control characters spelled out."""
        return self.stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  what the stream has
        return getattr(self.stream, name)


def main() -> NoReturn:
    """Runs the command line. Errors of the user or the machine become one line and an exit status."""
    out, err = (cast("TextIO", _Printable(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        _main()


def _main() -> NoReturn:
    signal.signal(signal.SIGTERM, interrupt)
    try:
        sys.exit(difftest.main(standalone_mode=False) or 0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        _exit_with(f"interrupted; {CONTINUES}", STATUS)
    except StoppedError as error:
        _exit_with(f"{error}; {CONTINUES}", error.status)
    except (UsageError, InfrastructureError) as error:
        _exit_with(error, error.status)
    except ModuleNotFoundError as error:
        _exit_with(_missing(error), InfrastructureError.status)
    except OSError as error:  # a full disk, a folder that may not be written
        _exit_with(error, InfrastructureError.status)


def _missing(error: ModuleNotFoundError) -> Exception:
    """A missing framework, with the command that installs it; raises `error` again for other modules."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        raise error
    return InfrastructureError(
        f"this command needs {package}, which is not installed: pip install -e '.[{EXTRAS[package]}]'"
    )


def _exit_with(error: Exception | str, status: int) -> NoReturn:
    click.echo(f"difftest: {error}", err=True)
    sys.exit(status)
