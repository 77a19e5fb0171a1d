"""Runs the script of every fault of upstream on a release, prints a table, and writes what came of it.

    python tools/releases.py                          # the packages of this environment
    python tools/releases.py newest --package torch   # one that `difftest environments make newest` made
    python tools/releases.py jax --package XLA        # the newest jaxlib, with Shardy and with GSPMD

Faults of XLA are run on the environment's jaxlib too, those of partitioned programs with both partitioners.
Faults of packages that the environment lacks are left out. Without `--write` nothing is changed; with it,
the files of `difftest/findings/known/` have the releases. It takes some seconds for each fault.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from difftest.findings.faults import KNOWN, KnownFault, read_faults, release_order  # noqa: E402
from difftest.findings.flips import GSPMD  # noqa: E402
from difftest.ground import made_environments  # noqa: E402  found on the path above
from difftest.jobs.watch.script_states import (  # noqa: E402
    NEEDS_GPU,
    PARTITIONERS,
    ScriptState,
    partitioners,
    state_on,
    variables_of,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from difftest.records.finding import State


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
    if not (release := version(python, fault.needs)):
        return fault
    after = answered(fault, release, state_on(python, fault.shown_by, variables_of(fault, python)))
    click.echo(f"{after.releases.get(release, NEEDS_GPU):<8} {fault.needs} {release}  {fault.name}")
    return after


def on_jaxlib(python: str, fault: KnownFault) -> KnownFault:
    """The fault of XLA with what its script for jaxlib says; the same without such a script, or jaxlib."""
    release = version(python, "jaxlib")
    script = fault.shown_on_jax_by
    if not (script and release):
        return fault
    for partitioner in partitioners(script):
        result = state_on(python, script, PARTITIONERS[partitioner])
        if result is not None:
            click.echo(f"{result.state:<8} jaxlib {release}  {fault.name} {partitioner}")
            name = "gspmd" if partitioner == GSPMD else "jaxlib"
            states = with_release(getattr(fault, name), release, result.state)
            fault = msgspec.structs.replace(fault, **{name: states})
    return fault


def answered(fault: KnownFault, release: str, result: ScriptState | None) -> KnownFault:
    """The fault with what its script said of `release`; the same where this machine cannot say."""
    if result is None:
        return fault
    notes = {name: old for name, old in fault.notes.items() if name != release}
    if result.state == "unclear":
        notes[release] = result.note
    releases = with_release(fault.releases, release, result.state)
    return msgspec.structs.replace(fault, releases=releases, notes=notes)


def with_release(releases: "Mapping[str, State]", release: str, state: "State") -> "dict[str, State]":
    """Releases, old to new, with what one of them showed."""
    states = {**releases, release: state}
    return {name: states[name] for name in sorted(states, key=release_order)}


WRITTEN = ("releases", "notes", "jaxlib", "gspmd")
"""What `save` replaces in a file; the rest of it stays as it was written."""


def save(fault: KnownFault) -> None:
    """Writes what was said of the releases into the file of a fault."""
    file = KNOWN / f"{fault.name}.toml"
    lines = [line for line in file.read_text().splitlines() if line.partition(" = ")[0] not in WRITTEN]
    written = [line_of(name, value) for name in WRITTEN if (value := getattr(fault, name))]
    after = next(number for number, line in enumerate(lines) if line.startswith("origin = "))
    file.write_text("\n".join((*lines[:after], *written, *lines[after:])) + "\n")


def line_of(name: str, states: "Mapping[str, str]") -> str:
    """A line of TOML; strings are written as in JSON."""
    return f"{name} = {{ {', '.join(f'{_json(key)} = {_json(state)}' for key, state in states.items())} }}"


def _json(value: str) -> str:
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    main()
