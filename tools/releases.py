"""Runs the script of every fault of upstream on a release, prints a table, and writes what came of it.

    python tools/releases.py                          # the packages of this environment
    python tools/releases.py newest --package torch   # one that `difftest environments make newest` made
    python tools/releases.py torchax --package XLA    # the newest jaxlib, which is in that environment

Faults of XLA are run on the environment's jaxlib too. Faults of packages that the environment lacks are left
out. Without `--write` nothing is changed; with it, `difftest/findings/faults.toml` has the releases. It takes
some seconds for each fault.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from difftest import made_environments  # noqa: E402  found on the path above
from difftest.commands.service.scripts import TRACEBACK, ScriptRun, run_script  # noqa: E402
from difftest.findings.faults import FAULTS_FILE, SCRIPTS, Fault, age, read_faults  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping

    from difftest.records.finding import State

HEAD = re.compile(r"\A.*?(?=^\[\[fault\]\])", re.DOTALL | re.MULTILINE)
"""The comment at the beginning of the file."""

NOT_THERE = "not there"
"""What scripts of several faults print of those that are fixed; a rank says so, and its parent raises."""

NEEDS_GPU = "needs a GPU"
"""What a script of a fault in torch's CUDA code prints on a machine without a GPU: nothing is known then."""

STILL_FAILS = re.compile(
    r"expected a (?:result|DTensor), actual (?!.*does not have a sharding).*\w+Error: .*"
)
"""What such a script prints of a fault that fails in another way than before.

Where DTensor says by now that it has no rule, the fault is fixed: a missing rule is another one.
"""

VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]).partition('+')[0])"


@click.command()
@click.argument("environment", required=False)
@click.option("--package", "packages", multiple=True, help="Only faults of this package.  [default: all]")
@click.option("--only", default="", help="Only scripts whose names contain this.")
@click.option("--write", is_flag=True, help="Write the releases to the file of faults.")
def main(environment: str | None, packages: tuple[str, ...], only: str, *, write: bool) -> None:
    """Run the scripts in ENVIRONMENT, by default in this one."""
    python = str(made_environments.python(environment)) if environment else sys.executable
    faults = []
    for fault in read_faults():
        chosen = (not packages or fault.package in packages) and only in fault.script
        faults.append(on_jaxlib(python, on_its_package(python, fault)) if chosen else fault)
    if write:
        save(faults)


def on_its_package(python: str, fault: Fault) -> Fault:
    """The fault with what its script says in an environment; the same where that lacks its package."""
    if not (release := prepared(python, fault)):
        return fault
    run = run_script(text(fault.script), python=python, arguments=fault.arguments)
    if NEEDS_GPU in run.output:
        click.echo(f"{NEEDS_GPU}  {' '.join(named(fault))}")
        return fault
    after = answered(fault, release, run)
    click.echo(f"{after.releases[release]:<8} {fault.needs} {release}  {' '.join(named(fault))}")
    return after


def prepared(python: str, fault: Fault) -> str:
    """The release of the fault's package in an environment, in which its script can run from now on.

    Empty where the environment lacks the package.
    """
    release = version(python, fault.needs)
    if release and fault.package == "torch_tpu":
        os.environ.setdefault("TPU_LIBRARY_PATH", stand_in(python))
    return release


def on_jaxlib(python: str, fault: Fault) -> Fault:
    """The fault of XLA with what its script for jaxlib says; the same without such a script, or jaxlib."""
    release = version(python, "jaxlib")
    if not (fault.on_jax and release):
        return fault
    script, *arguments = fault.on_jax.split()
    run = run_script(text(script), python=python, arguments=arguments)
    click.echo(f"{state(run):<8} jaxlib {release}  {fault.on_jax}")
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


def text(script: str) -> str:
    """The text of a script."""
    return (ROOT / SCRIPTS / script).read_text()


def named(fault: Fault) -> tuple[str, ...]:
    """Its script and the arguments."""
    return (fault.script, *fault.arguments)


def answered(fault: Fault, release: str, run: ScriptRun) -> Fault:
    """The fault with what a run of its script said of `release`, which comes last."""
    notes = {name: old for name, old in fault.notes.items() if name != release}
    if state(run) == "unclear":
        notes[release] = _note(run.output)
    releases = with_release(fault.releases, release, state(run))
    return msgspec.structs.replace(fault, releases=releases, notes=notes)


def state(run: ScriptRun) -> "State":
    """What a run of a script says of the fault."""
    if run.shown:
        return "alive"
    fixed = (run.absent or NOT_THERE in run.output) and not STILL_FAILS.search(run.output)
    return "fixed" if fixed else "unclear"


def with_release(releases: "Mapping[str, State]", release: str, state: "State") -> "dict[str, State]":
    """Releases, old to new, with what one of them showed."""
    return {name: {**releases, release: state}[name] for name in sorted({*releases, release}, key=age)}


def _note(output: str) -> str:
    """The line that says how the fault fails now, or else the last one."""
    if fails := STILL_FAILS.search(output):
        return fails[0][:200]
    lines = [line for line in output.splitlines() if line.strip() and TRACEBACK not in line]
    return lines[-1].strip()[:200] if lines else "no output"


def save(faults: list[Fault]) -> None:
    """Writes the file of faults anew, with the comment at its beginning."""
    head = HEAD.match(FAULTS_FILE.read_text())
    blocks = ["[[fault]]\n" + "".join(_line(*pair) for pair in _fields(fault).items()) for fault in faults]
    FAULTS_FILE.write_text((head[0] if head else "") + "\n".join(blocks))


def _fields(fault: Fault) -> dict[str, object]:
    """What is not empty."""
    return {name: value for name, value in msgspec.to_builtins(fault).items() if value}


def _line(name: str, value: object) -> str:
    """A line of TOML; strings, lists and tables of strings are written as in JSON but for `=`."""
    if isinstance(value, dict):
        value = "{ " + ", ".join(f"{_json(key)} = {_json(item)}" for key, item in value.items()) + " }"
        return f"{name} = {value}\n"
    return f"{name} = {_json(value)}\n"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode().replace('","', '", "')


if __name__ == "__main__":
    main()
