"""Runs the script of every fault of upstream on a release, prints a table, and writes what came of it.

    python tools/releases.py                          # the packages of this environment
    python tools/releases.py newest --package torch   # one that `difftest environments make newest` made
    python tools/releases.py torchax --package XLA    # the newest jaxlib, which is in that environment

Faults of XLA are run on the environment's jaxlib too. Faults of packages that the environment lacks are
left out. Without `--write` nothing is changed; with it, the files of `difftest/findings/known/` have the
releases. It takes some seconds for each fault.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from difftest.findings.faults import KNOWN, KnownFault, age, read_faults  # noqa: E402
from difftest.ground import made_environments  # noqa: E402  found on the path above
from difftest.jobs.filing.known_script import script_of, script_on_jax  # noqa: E402
from difftest.jobs.filing.script_runs import TRACEBACK, ScriptRun, run_script  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping

    from difftest.records.finding import State

NOT_THERE = "not there"
"""What scripts of several faults print of those that are fixed; a rank says so, and its parent raises."""

NEEDS_GPU = "needs a GPU"
"""What a script of a fault in torch's CUDA code prints on a machine without a GPU: nothing is known then."""

NO_RULE = "does not have a sharding"
"""What DTensor says of an operator without a rule: what failed before is fixed, as this is another fault."""

VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]).partition('+')[0])"


@click.command()
@click.argument("environment", required=False)
@click.option("--package", "packages", multiple=True, help="Only faults of this package.  [default: all]")
@click.option("--only", default="", help="Only scripts whose names contain this.")
@click.option("--write", is_flag=True, help="Write the releases to the file of faults.")
def main(environment: str | None, packages: tuple[str, ...], only: str, *, write: bool) -> None:
    """Run the scripts in ENVIRONMENT, by default in this one."""
    python = str(made_environments.python(environment)) if environment else sys.executable
    for fault in read_faults():
        if (not packages or fault.package in packages) and only in fault.name:
            after = on_jaxlib(python, on_its_package(python, fault))
            if write and after != fault:
                save(after)


def on_its_package(python: str, fault: KnownFault) -> KnownFault:
    """The fault with what its script says in an environment; the same where that lacks its package."""
    if not (release := prepared(python, fault)):
        return fault
    script = script_of(fault)
    run = run_script(script.text, python=python, raises=script.raises)
    if NEEDS_GPU in run.output:
        click.echo(f"{NEEDS_GPU}  {fault.name}")
        return fault
    after = answered(fault, release, run)
    click.echo(f"{after.releases[release]:<8} {fault.needs} {release}  {fault.name}")
    return after


def prepared(python: str, fault: KnownFault) -> str:
    """The release of the fault's package in an environment, in which its script can run from now on.

    Empty where the environment lacks the package.
    """
    release = version(python, fault.needs)
    if release and fault.package == "torch_tpu":
        os.environ.setdefault("TPU_LIBRARY_PATH", stand_in(python))
    return release


def on_jaxlib(python: str, fault: KnownFault) -> KnownFault:
    """The fault of XLA with what its script for jaxlib says; the same without such a script, or jaxlib."""
    release = version(python, "jaxlib")
    script = script_on_jax(fault)
    if not (script and release):
        return fault
    run = run_script(script.text, python=python, raises=script.raises)
    click.echo(f"{state(run):<8} jaxlib {release}  {fault.name}")
    return msgspec.structs.replace(fault, jaxlib=with_release(fault.jaxlib, release, state(run)))


def version(python: str, distribution: str) -> str:
    """The release of a distribution in an environment, without its local part; empty where it lacks it."""
    command = [python, "-c", VERSION, distribution]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  Python itself
    return done.stdout.strip()


def stand_in(python: str) -> str:
    """The PJRT plugin that takes the place of libtpu, built where it is not there yet."""
    command = [python, "-c", "from workers.tpu import build; print(build.library())"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603  our own
    return done.stdout.strip()


def answered(fault: KnownFault, release: str, run: ScriptRun) -> KnownFault:
    """The fault with what a run of its script said of `release`, which comes last."""
    notes = {name: old for name, old in fault.notes.items() if name != release}
    said = state(run, by_exception=bool(fault.raises))
    if said == "unclear":
        notes[release] = _note(run.output)
    releases = with_release(fault.releases, release, said)
    return msgspec.structs.replace(fault, releases=releases, notes=notes)


def state(run: ScriptRun, *, by_exception: bool = False) -> "State":
    """What a run of a script says of the fault, which the script shows by an exception, or by its status."""
    if run.shown:
        return "alive"
    fixed = run.absent or NOT_THERE in run.output or (by_exception and NO_RULE in run.output)
    return "fixed" if fixed else "unclear"


def with_release(releases: "Mapping[str, State]", release: str, state: "State") -> "dict[str, State]":
    """Releases, old to new, with what one of them showed."""
    return {name: {**releases, release: state}[name] for name in sorted({*releases, release}, key=age)}


def _note(output: str) -> str:
    """The last line, which says how it fails now."""
    lines = [line for line in output.splitlines() if line.strip() and TRACEBACK not in line]
    return lines[-1].strip()[:200] if lines else "no output"


WRITTEN = ("releases", "notes", "jaxlib")
"""What `save` replaces in a file; the rest of it stays as it was written."""


def save(fault: KnownFault) -> None:
    """Writes what was said of the releases into the file of a fault."""
    file = KNOWN / f"{fault.name}.toml"
    lines = [line for line in file.read_text().splitlines() if line.partition(" = ")[0] not in WRITTEN]
    said = [_line(name, value) for name in WRITTEN if (value := getattr(fault, name))]
    after = next(number for number, line in enumerate(lines) if line.startswith("origin = "))
    file.write_text("\n".join((*lines[:after], *said, *lines[after:])) + "\n")


def _line(name: str, states: "Mapping[str, str]") -> str:
    """A line of TOML; strings are written as in JSON."""
    return f"{name} = {{ {', '.join(f'{_json(key)} = {_json(said)}' for key, said in states.items())} }}"


def _json(value: str) -> str:
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    main()
