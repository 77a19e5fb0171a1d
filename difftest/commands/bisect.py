"""`difftest bisect`: between which versions of a package a fault came or went, by its reproducer or its case in an environment of each."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from difftest.commands.reproducer import read_finding
from difftest.commands.service import case_script
from difftest.commands.service.environments import COMPANIONS, Environments
from difftest.commands.service.options import json_option, print_json
from difftest.commands.service.scripts import SECONDS, run_script
from difftest.errors import InfrastructureError, UsageError
from difftest.findings.bisect import Asked, Bisected
from difftest.findings.bisect import bisect as search
from difftest.records.corpus import SCRIPT, Corpus

TIMES = 3
HOME = Path("runs/environments")
REPLAYING = "replaying"
"""The folder of the environments that have difftest too."""

SAID = {
    "came": "last good {last}, first bad {first}",
    "went": "last bad {last}, first good {first}",
    "in all": "shown by every version that could be asked",
    "in none": "shown by no version that could be asked",
    "unreliable": "the answers do not say where it came or went",
    "untold": "no version could be asked",
}
CONCLUSIVE = ("came", "went")


@click.command("bisect")
@click.argument("target", metavar="FINDING|SCRIPT", type=click.Path(path_type=Path))
@click.option("--package", default="torch_xla", show_default=True, help="Of which the versions are.")
@click.option("--versions", required=True, metavar="A,B,...", help="Which to ask, oldest first.")
@click.option(
    "--times", type=click.IntRange(min=1), default=TIMES, show_default=True, help="How often each is asked."
)
@click.option("--every", is_flag=True, help="Ask every version, not only those that halve the way.")
@click.option(
    "--with",
    "companions",
    multiple=True,
    metavar="REQUIREMENT",
    help="Install this too: 'torch=={version}'.  [default: by package]",
)
@click.option(
    "--environments",
    type=click.Path(path_type=Path),
    default=HOME,
    show_default=True,
    help="Where environments are kept.",
)
@click.option(
    "--python",
    type=click.Path(path_type=Path, exists=True),
    help="Makes the environments.  [default: this one]",
)
@click.option("--seconds", type=float, default=SECONDS, show_default=True, help="How long one run may take.")
@json_option
def command(target: Path, **options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Say between which versions a fault came or went; exit status 1 when that cannot be said.

    A finding is asked for by its reproducer, or where it has none by its case, with difftest in every environment. A script must exit 0
    where the fault is and 1 where it is not.
    """
    text, besides = read_script(target)
    companions = (*(options["companions"] or COMPANIONS.get(options["package"], ())), *besides)
    root = options["environments"] / REPLAYING if besides else options["environments"]
    made = Environments(root=root, package=options["package"], companions=companions)
    made = replace(made, python=options["python"]) if options["python"] else made

    def ask(version: str) -> Asked:
        asked = ask_version(made, text, version, options["times"], options["seconds"])
        click.echo(
            f"{options['package']} {version}: {asked.answer} ({asked.shown} of {asked.times} show it)",
            err=True,
        )
        return asked

    versions = [version.strip() for version in options["versions"].split(",") if version.strip()]
    found = search(versions, ask, everyone=options["every"])
    if options["as_json"]:
        print_json(
            {
                **asdict(found),
                "asked": [asdict(one) | {"answer": one.answer} for one in found.asked],
                "package": options["package"],
            }
        )
    else:
        _tell(options["package"], found)
    if target.is_dir() and found.verdict in CONCLUSIVE:
        _keep(target, options["package"], found)
    return int(found.verdict not in CONCLUSIVE)


def read_script(target: Path) -> tuple[str, tuple[str, ...]]:
    """What is asked, and what that needs installed besides: the script, a finding's reproducer, or a replay of its case.

    `UsageError` where there is none of them.
    """
    if target.is_dir() and not (target / SCRIPT).exists():
        finding, case, _ = read_finding(target)
        return case_script.script(finding, case), case_script.requirement()
    file = target / SCRIPT if target.is_dir() else target
    try:
        return file.read_text(), ()
    except (OSError, UnicodeError) as error:
        msg = f"cannot read {str(file)!r}: {error}"
        raise UsageError(msg) from error


def ask_version(environments: Environments, text: str, version: str, times: int, seconds: float) -> Asked:
    """Runs a script so often in a version's environment. Where that cannot be made, nothing is told, and the reason."""
    try:
        python = environments.interpreter(version)
    except InfrastructureError as error:
        return Asked(version=version, said=str(error))
    tries = [run_script(text, seconds, str(python)) for _ in range(times)]
    return Asked(
        version=version,
        shown=sum(t.shown for t in tries),
        absent=sum(t.absent for t in tries),
        times=times,
        said=tries[-1].said,
    )


def _keep(folder: Path, package: str, found: Bisected) -> None:
    """The finding says from then on between which versions it came or went."""
    corpus, name = Corpus(folder.resolve().parent), folder.resolve().name
    told = SAID[found.verdict].format(last=found.last, first=found.first)
    corpus.amend(name, evidence={**corpus.finding(name).evidence, f"versions of {package}": told})


def _tell(package: str, found: Bisected) -> None:
    for asked in found.asked:
        last = asked.said.strip().splitlines()[-1:] or [""]
        click.echo(f"{package} {asked.version}: {asked.answer}; {last[0]}")
    click.echo(f"{found.verdict}: {SAID[found.verdict].format(last=found.last, first=found.first)}")
