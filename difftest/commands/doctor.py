"""`difftest doctor`: this machine's devices and packages, and how to install what is missing."""

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import psutil

from difftest.commands import Group
from difftest.ground import installed
from difftest.jobs.ask.capacity import most_ranks
from difftest.jobs.ask.options import Json, own_options
from difftest.jobs.installed import readiness
from difftest.jobs.installed.readiness import State
from difftest.jobs.screen.output import print_json
from difftest.jobs.screen.terminal import Style, print_line

PACKAGES = {
    "numpy": "", "pandas": "", "pyarrow": "", "hypothesis": "",
    "ray": "pip install -e '.[cluster]'",
    "torch": "pip install -e '.[xla]', or '.[cuda]' for the newest torch without XLA",
    "torch_xla": "pip install -e '.[xla]'",
    "jax": "pip install -e '.[xla]', for flash attention on XLA",
    "torchax": "pip install -e '.[torchax]', for the second XLA backend",
    "flax": "pip install -e '.[torchax]', which torchax imports",
}  # fmt: skip
"""What the service uses, and how to install it if it is not a requirement of difftest itself."""

STYLES = {State.GOOD: Style.GOOD, State.LIMITED: Style.KNOWN, State.BAD: Style.ALARM}

FOR_CHIPS = {"libtpu": "pip install -e '.[xla,tpu]'"}
"""What it uses in addition on a machine with TPU chips."""


GROUP = Group.ASK


@click.command("doctor")
@own_options
def command(*, as_json: Json) -> None:
    """Check this machine: devices, packages, Ray's token, the C compiler, memory and disk, with a verdict."""
    from workers.xla import devices

    used = PACKAGES | (FOR_CHIPS if devices.chips() else {})
    packages = {name: installed.version(name) for name in used}
    gpus = _gpus()
    result = {
        "machine": _machine(),
        "devices": {"cuda": ", ".join(gpus) or "none: the torch side runs on CPU with gloo", "tpu": _chips()},
        "packages": packages,
        "missing": {name: used[name] for name, version in packages.items() if version is None},
    }
    results = readiness.checks(packages, result["missing"], Path())
    verdict = readiness.verdict(results)
    if as_json:
        print_json({**result, "checks": [check._asdict() for check in results], "verdict": verdict})
        return
    for group in ("machine", "devices", "packages"):
        click.echo(group)
        for name, value in result[group].items():
            click.echo(f"  {name:<12} {value if value is not None else 'missing: ' + used[name]}")
    click.echo("checks")
    for check in results:
        print_line(f"  {check.name:<22} ", (STYLES[check.state], f"{check.state:<9}"), f" {check.words}")
    worst = max((check.state for check in results), key=tuple(State).index)
    print_line((STYLES[worst], verdict))


def _machine() -> dict[str, Any]:
    memory = psutil.virtual_memory()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "memory": f"{memory.available / 2**30:.0f} of {memory.total / 2**30:.0f} GiB free",
        "ranks": f"at most {most_ranks()}",
    }


def _chips() -> str:
    """The chips, and whether the workers use them: not without libtpu, nor if the user chose a device."""
    from workers.xla import devices

    there, kind = devices.chips(), devices.kind()
    if not there:
        return "none: the XLA side runs on XLA:CPU with virtual devices"
    return (
        f"{there} chips" if kind == "TPU" else f"{there} chips, left alone: the XLA side runs on XLA:{kind}"
    )


def _gpus() -> list[str]:
    """What the driver lists. Asking torch would take seconds and a CUDA context."""
    program = shutil.which("nvidia-smi")
    if not program:
        return []
    command = [program, "-L"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  from the PATH
    return [line.partition(" (UUID")[0] for line in listed.stdout.splitlines() if line.startswith("GPU ")]
