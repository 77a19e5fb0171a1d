"""Writes a draft for every fault of upstream: what it means, its script, and what that printed here.

    python tools/dossier.py drafts                           # the packages of this environment
    python tools/dossier.py drafts newest --package torch    # of `difftest environments make newest`
    python tools/dossier.py drafts --only celu               # faults whose script or title contains this

Nothing is posted. Each script is run first, and a fault that it does not show gets no draft. It takes some
seconds for each fault.
"""

import re
import sys
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from difftest import made_environments  # noqa: E402  found on the path above
from difftest.commands.service.known_script import KnownScript, script_of  # noqa: E402
from difftest.commands.service.scripts import run_script  # noqa: E402
from difftest.findings.faults import Fault, read_faults  # noqa: E402
from reports.draft.markup import fenced  # noqa: E402
from tools.releases import prepared  # noqa: E402

TRACKERS = {
    "torch": "pytorch/pytorch",
    "torch_xla": "pytorch/xla",
    "XLA": "openxla/xla",
    "torchax": "google/torchax",
    "torch_tpu": "google-pytorch/torch_tpu",
}
SEVERITIES = {
    "wrong": "Silent: training goes on with it, and nothing says so.",
    "hang": "Training stops without a word.",
    "crash": "The process ends without a Python exception.",
    "exception": "Training stops with an exception.",
}
"""What a kind of fault means for a training run, by a word of its kind; the first that is there counts."""

DRAFT = """\
# {title}

For {tracker}. {severity}

{answers}

### Script

{script}

### Versions

{versions}
{known}"""


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.argument("environment", required=False)
@click.option("--package", "packages", multiple=True, help="Only faults of this package.  [default: all]")
@click.option("--only", default="", help="Only faults whose script or title contains this.")
def main(folder: Path, environment: str | None, packages: tuple[str, ...], only: str) -> None:
    """Write the drafts into FOLDER, with what the scripts print in ENVIRONMENT, by default this one."""
    folder.mkdir(parents=True, exist_ok=True)
    python = str(made_environments.python(environment)) if environment else sys.executable
    for fault in read_faults():
        chosen = not packages or fault.package in packages
        if not (chosen and only in f"{fault.script} {fault.title}"):
            continue
        if not (release := prepared(python, fault)):
            continue
        script = script_of(fault, fault.arguments)
        run = run_script(script.text, python=python, arguments=script.arguments)
        file = folder / f"{file_name(fault)}.md"
        if run.shown:
            file.write_text(draft(fault, release, script, run.output))
        else:
            file.unlink(missing_ok=True)
        click.echo(f"{'written' if run.shown else 'not shown here'}: {file.name}")


def file_name(fault: Fault) -> str:
    """The script's name with the arguments, as a word for a file."""
    return "-".join((Path(fault.script).stem, *fault.arguments))


def draft(fault: Fault, release: str, script: KnownScript, output: str) -> str:
    """The draft of a fault that its script shows on a release."""
    run = f"\n\nRun it with `{' '.join(script.arguments)}`." if script.arguments else ""
    releases = ", ".join(f"{name} {state}" for name, state in fault.releases.items())
    return DRAFT.format(
        title=fault.title[:1].upper() + fault.title[1:],
        tracker=TRACKERS[fault.package],
        severity=severity(fault),
        answers=fenced("\n".join(answers(output))),
        script=fenced(script.text, "python") + run,
        versions=f"{fault.needs} {release}, Python {sys.version.split()[0]}. Tried: {releases}.",
        known=f"\nReported: {fault.issue}\n" if fault.issue else "",
    )


def severity(fault: Fault) -> str:
    """What the fault means for a training run."""
    return next((words for kind, words in SEVERITIES.items() if kind in fault.kind), SEVERITIES["exception"])


def answers(output: str) -> list[str]:
    """The lines that say what was expected, or the last five where none does."""
    lines = [line for line in output.splitlines() if line.strip()]
    return [line for line in lines if re.search(r"\bexpected\b", line)] or lines[-5:]


if __name__ == "__main__":
    main()
