"""The options that several commands share, and the types of their values."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from difftest.campaign.campaign import ORACLE
from difftest.campaign.groups import MOST_CASES
from difftest.findings.ledger import LEDGER_FILE
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from difftest.records.completeness import LEAST_COMPARED, MOST_INCONCLUSIVE

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

USUAL_PATHS = "all but blocks, features and modules"
"""The paths of a campaign that names none, in words."""

FAIL_ON = ("new", "any", "infra", "never")
NEVER = "never"


class Deciding(click.Option):
    """An option that decides what runs or what counts.

    It is given on the line alone: a file of defaults in the working directory may be somebody else's.
    """


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
            return self._required(tuple(part.strip() for part in value.split(",")))
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
        words = value if isinstance(value, tuple) else tuple(word.strip() for word in value.split(","))
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

    name = "10m"

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


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else, on standard output."
)
trust_option = click.option(
    "--trust",
    is_flag=True,
    cls=Deciding,
    help="Run what somebody else may have made: a finding's script, or a module that you never ran.",
)
tracker_option = click.option(
    "--tracker", metavar="NAME", help="pytorch, xla or openxla.  [default: according to the evidence]"
)
most_a_day_option = click.option(
    "--most-a-day",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="The largest number of drafts for a corpus in one day (UTC).",
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of the generated cases. Case i of a seed is the same on every machine.",
)


def paths_option(usual: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option of a command that uses the paths which `usual` describes where nothing else is said."""
    return click.option(
        "--paths",
        type=Names("generators.paths"),
        default=(),
        help=f"Use only these parallelism paths.  [default: {usual}]",
    )


def own_model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a module of the user's; `difftest.jobs.ask.own_model.take_model` reads them."""
    for option in reversed(_OWN_MODEL):
        command = option(command)
    return command


_OWN_MODEL = (
    click.option(
        "--model",
        cls=Deciding,
        metavar="SOURCE",
        help="Run cases of your own model in the working directory, package.module:build or model.py:build, "
        "or of one by name, such as hf:llama (difftest models).",
    ),
    click.option(
        "--steps",
        type=int,
        metavar="N",
        help="With --model: every case has N steps, 1 to 200.  [default: 1 to 5, or with --convergence 50]",
    ),
    click.option(
        "--convergence",
        is_flag=True,
        help="With --model: every step gets the same batch, and whether the model learns is compared.",
    ),
)
backends_option = click.option(
    "--backends", type=Backends(), default=(), help="Use only these backends.  [default: all]"
)
max_world_size_option = click.option(
    "--max-world-size", type=int, default=8, show_default=True, help="The largest number of ranks of a case."
)
inputs_option = click.option(
    "--inputs",
    type=click.IntRange(1, MOST_CASES),
    default=1,
    show_default=True,
    help="How many inputs a case has: it is compiled once, and each input is compared.",
)
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), help="How many runs at a time.  [default: the number of CPUs]"
)
address_option = click.option(
    "--address",
    cls=Deciding,
    help="The Ray cluster to join.  [default: that of RAY_ADDRESS, or one started on this machine]",
)
ledger_option = click.option(
    "--known",
    "ledger",
    cls=Deciding,
    type=click.Path(path_type=Path),
    default=LEDGER_FILE,
    help="The ledger of known faults: a TOML file, or a folder with one for each.  [default: the project's]",
)
load_option = click.option(
    "--load",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="How many processes that only take CPU time to run beside it.",
)
fail_on_option = click.option(
    "--fail-on",
    cls=Deciding,
    type=FailOnWords(),
    default="new",
    show_default=True,
    metavar="new,any,infra|never",
    help="Exit with status 1 on new findings, any findings, infrastructure trouble, or never.",
)
least_compared_option = click.option(
    "--least-compared",
    cls=Deciding,
    type=click.FloatRange(0.0, 1.0),
    default=LEAST_COMPARED,
    show_default=True,
    help="Exit with status 3 if a smaller share of a side's comparisons was made.",
)
most_inconclusive_option = click.option(
    "--most-inconclusive",
    cls=Deciding,
    type=click.FloatRange(0.0, 1.0),
    default=MOST_INCONCLUSIVE,
    show_default=True,
    help="Exit with status 3 if a larger share of a side's comparisons is inconclusive.",
)


def programs_option(usual: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option of a command that runs so many programs where nothing else is said."""
    return click.option(
        "--programs",
        type=click.IntRange(min=0),
        default=usual,
        show_default=True,
        help="How many programs of operators, or modules if named, run before every 20 other cases.",
    )
