"""The options of commands: a field of a request, or a parameter of a command, declares its own.

Its type is annotated with the option: `seed: Annotated[int, option(type=..., help=...)] = 0`. The option has
the field's name and default. Types that several commands share have a name here.
"""

import inspect
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from difftest.campaign.campaign import ORACLE
from difftest.cases.described import Description
from difftest.findings.ledger import LEDGER_FILE
from difftest.ground import plugins
from difftest.ground.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

COPIES = "working_dir_files"
"""Ray unpacks a job's working directory below a folder of this name, and removes it some time after the job.
"""

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

USUAL_PATHS = "those that `difftest list paths` marks"
"""The paths of a campaign that names none, in words."""

FAIL_ON = ("new", "any", "infra", "never")
NEVER = "never"


class Deciding(click.Option):
    """An option that decides what runs or what counts.

    It is given on the line alone: a file of defaults in the working directory may be somebody else's.
    """


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """An option as click takes it; without names it is called as its field."""

    names: tuple[str, ...]
    attributes: Mapping[str, Any]

    def add(self, command: Command, field: inspect.Parameter) -> Command:
        """Gives `command` the option of `field`."""
        attributes = dict(self.attributes)
        if field.default is not field.empty and "default" not in attributes:
            attributes["default"] = field.default
        shown = attributes.get("default") not in (None, (), "") and not attributes.get("is_flag")
        attributes.setdefault("show_default", shown and "[default" not in attributes["help"])
        dashed = f"--{field.name.replace('_', '-')}"
        own_name = not any(name.isidentifier() for name in self.names)
        names = (*(self.names or (dashed,)), *((field.name,) if own_name else ()))
        return click.option(*names, **attributes)(command)


def option(*names: str, **attributes: Any) -> DeclaredOption:  # noqa: ANN401  as click's function of this name
    """The option of a field; its attributes are those of `click.option`."""
    return DeclaredOption(names, attributes)


def options(of: Callable[..., Any], *, without: Container[str] = ()) -> Callable[[Command], Command]:
    """Gives a command the options that the fields of a request declare, in their order."""

    def added(command: Command) -> Command:
        for field in reversed([*inspect.signature(of).parameters.values()]):
            if field.name not in without:
                for declared in reversed(getattr(field.annotation, "__metadata__", ())):
                    command = declared.add(command, field)
        return command

    return added


def own_options(command: Command) -> Command:
    """Gives a command the options that its own parameters declare."""
    return options(command)(command)


def listed(text: str) -> tuple[str, ...]:
    """The words of a comma-separated list."""
    return tuple(word.strip() for word in text.split(","))


class Names(click.ParamType[tuple[str, ...]]):
    """A comma-separated list of plug-ins of one package."""

    name = "a,b"

    def __init__(self, package: str) -> None:
        self._package = package

    def convert(
        self,
        value: Any,  # noqa: ANN401  what click hands over
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, ...]:
        """The names; wrong usage when one of them does not exist."""
        if isinstance(value, tuple):
            return value
        try:
            return self._required(listed(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """What the last name of a list may become; names that the list has are left out."""
        del ctx, param
        before, comma, begun = incomplete.rpartition(",")
        left = [name for name in self._names() if name not in before.split(",")]
        return [CompletionItem(f"{before}{comma}{name}") for name in left if name.startswith(begun)]

    def _names(self) -> tuple[str, ...]:
        return plugins.names(self._package)

    def _required(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return plugins.require(self._package, names)


class Backends(Names):
    """A comma-separated list of backends, each with its environment if it has one (`xla_spmd@2.8`)."""

    def __init__(self) -> None:
        super().__init__("workers.backends")

    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in super()._names() if name != ORACLE)

    def _required(self, names: tuple[str, ...]) -> tuple[str, ...]:
        from workers.backends import candidates

        return tuple(candidates(names))


class FailOnWords(click.ParamType[tuple[str, ...]]):
    """A comma-separated list of `FAIL_ON`; `never` stands alone."""

    name = "a,b"

    def convert(
        self,
        value: Any,  # noqa: ANN401  what click hands over
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, ...]:
        """The words; wrong usage for another word, and for `never` beside one."""
        words = value if isinstance(value, tuple) else listed(value)
        for word in words:
            if word not in FAIL_ON:
                allowed = ", ".join(map(repr, FAIL_ON))
                self.fail(f"{word!r} is not one of {allowed}.", param, ctx)
        if NEVER in words and len(words) > 1:
            self.fail(f"{NEVER!r} stands alone; given: {', '.join(words)}.", param, ctx)
        return tuple(words)


class Duration(click.ParamType[float]):
    """A time such as 90s, 10m or 2h, in seconds.

    0 is refused: a budget of 0 must not mean a budget without end.
    """

    name = "duration"

    def convert(
        self,
        value: Any,  # noqa: ANN401  what click hands over
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Seconds; wrong usage for anything else."""
        if isinstance(value, float):
            return value
        duration = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", value)
        if not duration or not float(duration[1]):
            allowed = "a number above 0 and s, m or h, such as 10m"
            self.fail(f"{value!r} is not a duration; allowed: {allowed}", param, ctx)
        return float(duration[1]) * UNITS[duration[2]]


class Out(click.ParamType[Path | str]):
    """A folder, or an address that fsspec supports.

    A folder inside a Ray job's copy of its working directory is refused: it would not outlive the job.
    """

    name = "folder"

    def convert(
        self,
        value: Any,  # noqa: ANN401  what click hands over
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path | str:
        """The folder or the address; wrong usage for a folder that Ray would remove."""
        if _ADDRESS.match(str(value)):
            return str(value)
        out = Path(value)
        if COPIES in (place := Path.cwd() / out).resolve().parts:
            reason = "is inside this Ray job's copy of its working directory, which Ray removes after the job"
            allowed = "an absolute path that stays, or an address such as s3://bucket/runs"
            self.fail(f"{str(place)!r} {reason}; give {allowed}", param, ctx)
        return out


Json: TypeAlias = Annotated[
    bool, option("--json", is_flag=True, help="Print one JSON object, and nothing else, on standard output.")
]
Trust: TypeAlias = Annotated[
    bool,
    option(
        is_flag=True,
        cls=Deciding,
        help="Run code that may not be yours: a finding's script, or a module that you have not run yet.",
    ),
]
TRACKERS = ("pytorch", "xla", "openxla")
"""Each has a template in `reports/templates/issues/`."""

Tracker: TypeAlias = Annotated[
    str | None,
    option(
        type=click.Choice(TRACKERS),
        metavar="NAME",
        help=f"{', '.join(TRACKERS[:-1])} or {TRACKERS[-1]}.  [default: according to the evidence]",
    ),
]
MOST_A_DAY = 5
MostADay: TypeAlias = Annotated[
    int,
    option(
        type=click.IntRange(min=1),
        default=MOST_A_DAY,
        help="The largest number of drafts for a corpus in one day (UTC).",
    ),
]
Model: TypeAlias = Annotated[
    Description | None,
    option(
        "--model",
        cls=Deciding,
        metavar="SOURCE",
        help="Use your own model: package.module:build or model.py:build in the working directory, or a name "
        "such as hf:llama (difftest models lists them).",
    ),
    option(
        "--steps",
        "steps",
        type=int,
        metavar="N",
        help="With --model: every case has N steps, 1 to 200.  [default: 1 to 5, or with --convergence 50]",
    ),
    option(
        "--convergence",
        "convergence",
        is_flag=True,
        default=False,
        help="With --model: every step gets the same batch, and whether the model learns is compared.",
    ),
]
"""A module of the user's; `difftest.jobs.ask.own_model.take_model` makes it of the three options."""

ChosenBackends: TypeAlias = Annotated[
    tuple[str, ...], option(type=Backends(), default=(), help="Use only these backends.  [default: all]")
]
Workers: TypeAlias = Annotated[
    int | None,
    option(type=click.IntRange(min=1), help="How many runs at a time.  [default: the number of CPUs]"),
]
KnownFaults: TypeAlias = Annotated[
    Path,
    option(
        "--known",
        cls=Deciding,
        type=click.Path(path_type=Path),
        default=LEDGER_FILE,
        help="The ledger of known faults: a TOML file, or a folder with one for each.  "
        "[default: the project's]",
    ),
]
Load: TypeAlias = Annotated[
    int,
    option(
        type=click.IntRange(min=0),
        default=0,
        help="Number of CPU-bound processes to run alongside.",
    ),
]


def paths_option(usual: str) -> DeclaredOption:
    """The option of a command that uses the paths which `usual` describes where nothing else is said."""
    return option(
        type=Names("generators.paths"),
        default=(),
        help=f"Use only these parallelism paths.  [default: {usual}]",
    )
