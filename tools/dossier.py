"""Writes a draft for every fault of upstream, in the form of its tracker, with what its script printed here.

    python tools/dossier.py drafts                           # the packages of this environment
    python tools/dossier.py drafts newest --package torch    # of `difftest environments make newest`
    python tools/dossier.py drafts jax --package XLA     # with the newest jaxlib, which is in that one
    python tools/dossier.py drafts --only celu               # faults whose script or title contains this

Nothing is posted. Each script is run first, and a fault that it does not show gets no draft. A draft that
should not be posted, because the fault is reported or fixed, says so in its first line. A fault of XLA that
has a script for jaxlib alone is drafted with that and its HLO, where it shows the fault. It takes some
seconds for each fault.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import click

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from difftest.findings.faults import (  # noqa: E402
    KnownFault,
    KnownScript,
    read_faults,
)
from difftest.ground import made_environments  # noqa: E402  found on the path above
from difftest.jobs.filing.accusation import AccusedProgram, accuse  # noqa: E402
from difftest.jobs.filing.script_runs import compiled_hlo, run_script  # noqa: E402
from difftest.jobs.watch.script_states import variables_of, version  # noqa: E402
from difftest.records.corpus import AFTER_PASS, BEFORE_PASS  # noqa: E402
from tools.fault_draft import Shown, draft  # noqa: E402

Script: TypeAlias = tuple[KnownScript, tuple[str, ...]]
"""A script, and the distributions that it uses."""


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
        scripts = runnable(fault, python) if chosen and only in f"{fault.name} {fault.title}" else []
        if not scripts:
            continue
        file = folder / f"{fault.name}.md"
        if shown := ran(scripts, python, variables_of(fault, python)):
            file.write_text(draft(fault, shown))
        else:
            file.unlink(missing_ok=True)
        click.echo(f"{'written' if shown else 'not shown here'}: {file.name}")


def runnable(fault: KnownFault, python: str) -> list[Script]:
    """The fault's scripts whose packages an environment has: that with jaxlib alone first.

    Maintainers of XLA need no torch_xla for that.
    """
    scripts: list[Script] = []
    if (on_jax := fault.shown_on_jax_by) and version(python, "jaxlib"):
        scripts.append((on_jax, ("jax", "jaxlib")))
    if version(python, fault.needs):
        scripts.append((fault.shown_by, ("torch", fault.needs)))
    return scripts


def ran(scripts: Sequence[Script], python: str, variables: Mapping[str, str] | None = None) -> Shown | None:
    """The first of the scripts that shows its fault, with what it printed; None where none does."""
    for script, packages in scripts:
        run = run_script(script.text, python=python, raises=script.raises, variables=variables)
        if run.shown and run.output.strip():
            versions = {name: version(python, name) for name in dict.fromkeys(packages)}
            hlo = compiled_hlo(script.text, python) if "jax" in packages else ""
            passes = accused(script.text, python) if "jax" in packages else {}
            return Shown(script=script, output=run.output, versions=versions, hlo=hlo, **passes)
    return None


def accused(script: str, python: str) -> dict[str, str]:
    """The pass of XLA that is at fault for what a script shows, in the words of `Shown`."""
    made = accuse(AccusedProgram(scripts=(script,), python=python))
    modules = made.modules()
    return {
        "guilty_pass": made.sentence() if made.verdict.accuses else "",
        "before_pass": modules.get(BEFORE_PASS, ""),
        "after_pass": modules.get(AFTER_PASS, ""),
    }


if __name__ == "__main__":
    main()
