"""`difftest bisect`: between which versions of a package a fault appeared or disappeared."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import click

from difftest.commands import Group
from difftest.findings.bisect import Answer, Bisected, VersionResult, bisect
from difftest.ground.state_folder import state_folder
from difftest.jobs.ask.finding_path import FindingPath
from difftest.jobs.ask.options import Deciding, Json, Trust, option, options
from difftest.jobs.ask.targets import read_finding
from difftest.jobs.filing.bisection import ask_version, read_script
from difftest.jobs.filing.script_runs import SECONDS
from difftest.jobs.installed.environments import COMPANIONS, Environments
from difftest.jobs.screen.activity import Working
from difftest.jobs.screen.output import print_json
from difftest.records.finding import State

TIMES = 3
HOME = "bisect"
"""The folder of the user's state in which the environments are: what lies in it is run."""

WITH_DIFFTEST = "replaying"
"""The folder, inside that of the environments, of those that have difftest too."""

MEANINGS = {
    "came": "last good {last}, first bad {first}",
    "went": "last bad {last}, first good {first}",
    "in all": "shown by every version that gave an answer",
    "in none": "shown by no version that gave an answer",
    "unreliable": "the answers do not say where it appeared or disappeared",
    "untold": "no version gave an answer",
}
STATES: Mapping[Answer, State] = {"shown": "alive", "absent": "fixed"}
"""What a version's answer says of the release; any other answer leaves it unclear."""

CONCLUSIVE = ("came", "went")


@dataclass(frozen=True, kw_only=True)
class BisectRequest:
    """What the command was given."""

    package: Annotated[str, option(cls=Deciding, help="The package to bisect.")] = "torch_xla"
    versions: Annotated[str, option(required=True, metavar="A,B,...", help="Its versions, oldest first.")]
    times: Annotated[
        int, option(type=click.IntRange(min=1), help="How often to run the script on each version.")
    ] = TIMES
    every: Annotated[bool, option(is_flag=True, help="Run every version instead of a binary search.")]
    companions: Annotated[
        tuple[str, ...],
        option(
            "--with",
            cls=Deciding,
            multiple=True,
            metavar="REQUIREMENT",
            help="Another requirement to install, such as 'torch=={version}'.  [default: by package]",
        ),
    ]
    environments: Annotated[
        Path | None,
        option(
            cls=Deciding,
            type=click.Path(path_type=Path),
            help="The folder where the environments are kept.  [default: bisect in difftest's state folder]",
        ),
    ]
    python: Annotated[
        Path | None,
        option(
            cls=Deciding,
            type=click.Path(path_type=Path, exists=True),
            help="The Python that makes the environments.  [default: the one running difftest]",
        ),
    ]
    seconds: Annotated[float, option(type=float, help="The longest that one run may take.")] = SECONDS
    trust: Trust
    as_json: Json


GROUP = Group.UNDERSTAND


@click.command("bisect")
@click.argument("target", metavar="FINDING|SCRIPT", type=FindingPath())
@options(BisectRequest)
def command(target: Path, **options: Any) -> int:  # noqa: ANN401  what the decorators declare
    """Find the versions between which a fault appeared or disappeared.

    Exit status 1 when there is no clear answer.

    A finding is tested by its reproducer. If it has none, its case is run, with difftest installed in
    every environment. A reproducer that difftest did not write and run for you is run only if you agree. A
    script of your own must exit with status 0 where the fault is present and 1 where it is absent.
    """
    request = BisectRequest(**options)
    text, extra = read_script(target, trust=request.trust)
    environments = _environments(request, extra)

    def ask(version: str) -> VersionResult:
        result = ask_version(environments, text, version, request.times, request.seconds)
        shown = f"{result.shown} of {result.times} show it"
        click.echo(f"{request.package} {version}: {result.answer} ({shown})", err=True)
        return result

    versions = [version.strip() for version in request.versions.split(",") if version.strip()]
    with Working("bisect"):
        result = bisect(versions, ask, everyone=request.every)
    if request.as_json:
        print_json(_described(request.package, result))
    else:
        _print(request.package, result)
    if target.is_dir():
        _keep(target, request.package, result)
    return int(result.verdict not in CONCLUSIVE)


def _environments(request: BisectRequest, extra: tuple[str, ...]) -> Environments:
    """The environments of the package's versions; those with `extra` requirements are kept apart."""
    companions = (*(request.companions or COMPANIONS.get(request.package, ())), *extra)
    home = request.environments or state_folder(HOME)
    root = home / WITH_DIFFTEST if extra else home
    click.echo(f"environments of {request.package}: {root}", err=True)
    if request.python is None:
        return Environments(root=root, package=request.package, companions=companions)
    return Environments(root=root, package=request.package, companions=companions, python=request.python)


def _described(package: str, result: Bisected) -> dict[str, Any]:
    """The result as JSON. The keys `asked` and `said` are part of the command's interface."""
    answers = [
        asdict(release) | {"answer": release.answer, "said": release.output} for release in result.results
    ]
    for answer in answers:
        del answer["output"]
    return {
        "verdict": result.verdict,
        "asked": answers,
        "last": result.last,
        "first": result.first,
        "package": package,
    }


def _meaning(result: Bisected) -> str:
    return MEANINGS[result.verdict].format(last=result.last, first=result.first)


def _keep(folder: Path, package: str, result: Bisected) -> None:
    """Adds what each version showed to the finding, and the answer to its evidence if there is one."""
    subject = read_finding(folder)
    finding = subject.finding
    answers = {
        f"{package} {release.version}": STATES.get(release.answer, "unclear") for release in result.results
    }
    concluded = {f"versions of {package}": _meaning(result)} if result.verdict in CONCLUSIVE else {}
    subject.corpus.amend(
        finding.fingerprint,
        evidence={**finding.evidence, **concluded},
        releases={**finding.releases, **answers},
    )


def _print(package: str, result: Bisected) -> None:
    for release in result.results:
        last = release.output.strip().splitlines()[-1:] or [""]
        click.echo(f"{package} {release.version}: {release.answer}; {last[0]}")
    click.echo(f"{result.verdict}: {_meaning(result)}")
