"""Names the pass of XLA at fault for every listed fault of XLA, and writes it to the fault's file.

    python tools/guilty_passes.py                    # with the jaxlib of this environment
    python tools/guilty_passes.py torchax --write    # with that of `difftest environments make torchax`

It takes 2 to 20 seconds for each fault. `difftest passes NAME` does one, and prints the modules.
"""

import sys
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from difftest.findings.faults import KNOWN, KnownFault, age, read_faults  # noqa: E402
from difftest.ground import made_environments  # noqa: E402  found on the path above
from difftest.jobs.filing.accusation import Accusation, AccusedProgram, accuse, scripts_of  # noqa: E402
from difftest.jobs.watch.script_states import version  # noqa: E402
from tools.releases import line_of  # noqa: E402

KEY = "pass"


@click.command()
@click.argument("environment", required=False)
@click.option("--only", default="", help="Only scripts whose names contain this.")
@click.option("--write", is_flag=True, help="Write the passes to the files of the faults.")
def main(environment: str | None, only: str, *, write: bool) -> None:
    """Look for the pass with the XLA of ENVIRONMENT, by default that of this one."""
    python = str(made_environments.python(environment)) if environment else sys.executable
    for fault in read_faults():
        if fault.package == "XLA" and only in fault.name:
            release, made = looked_for(fault, python)
            click.echo(f"{fault.name}, {release}: {made.sentence()}")
            if write and made.verdict.accuses:
                save(fault, {**fault.passes, release: made.verdict.name})


def looked_for(fault: KnownFault, python: str) -> tuple[str, Accusation]:
    """The release whose XLA ran, and the verdict: of the first script that XLA gets wrong."""
    made = list[tuple[str, Accusation]]()
    for text in scripts_of(fault):
        package = "torch_xla" if "import torch_xla" in text else "jaxlib"
        if release := version(python, package):
            accusation = accuse(AccusedProgram(scripts=(text,), python=python), whole=True)
            made.append((f"{package} {release}", accusation))
            if accusation.verdict.accuses:
                break
    return made[-1]


def save(fault: KnownFault, passes: dict[str, str]) -> None:
    """Writes the passes by release, old to new, after the kind of a fault."""
    file = KNOWN / f"{fault.name}.toml"
    lines = [line for line in file.read_text().splitlines() if line.partition(" = ")[0] != KEY]
    written = line_of(KEY, {name: passes[name] for name in sorted(passes, key=age)})
    after = 1 + next(number for number, line in enumerate(lines) if line.startswith("kind = "))
    file.write_text("\n".join((*lines[:after], written, *lines[after:])) + "\n")


if __name__ == "__main__":
    main()
