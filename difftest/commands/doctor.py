"""`difftest doctor`: what this machine has, what is missing, and the command that installs it."""

import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import psutil

from difftest.commands._options import json_option, most_ranks, print_json

PACKAGES = {
    "numpy": "", "pandas": "", "pyarrow": "", "hypothesis": "",
    "ray": "pip install 'difftest[cluster]'",
    "torch": "pip install 'difftest[xla]', or 'difftest[cuda]' for the newest torch without XLA",
    "torch_xla": "pip install 'difftest[xla]'",
    "jax": "pip install 'difftest[xla]', for flash attention on XLA",
    "torchax": "pip install 'difftest[torchax]', for the second XLA alone",
    "flax": "pip install 'difftest[torchax]', which torchax imports",
}  # fmt: skip
"""What the service uses, and how to get it where the core does not bring it."""


@click.command("doctor")
@json_option
def command(*, as_json: bool) -> None:
    """Tell which devices and versions are here, and what is missing."""
    told = {"machine": _machine(), "devices": _devices(), "packages": {name: _version(name) for name in PACKAGES}}
    told["missing"] = {name: PACKAGES[name] for name, version in told["packages"].items() if version is None}
    if as_json:
        print_json(told)
        return
    for group in ("machine", "devices", "packages"):
        click.echo(group)
        for name, value in told[group].items():
            click.echo(f"  {name:<12} {value if value is not None else 'missing: ' + PACKAGES[name]}")


def _machine() -> dict[str, Any]:
    memory = psutil.virtual_memory()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "memory": f"{memory.available / 2**30:.0f} of {memory.total / 2**30:.0f} GiB free",
        "ranks": f"at most {most_ranks()}",
    }


def _devices() -> dict[str, str]:
    gpus = _gpus()
    chips = sorted(Path("/dev").glob("accel*")) + sorted(Path("/dev/vfio").glob("[0-9]*"))
    return {
        "cuda": ", ".join(gpus) or "none: the torch side runs on CPU with gloo",
        "tpu": f"{len(chips)} chips" if chips else "none: the XLA side runs on XLA:CPU with virtual devices",
    }


def _gpus() -> list[str]:
    """What the driver lists; asking torch would take seconds and a CUDA context."""
    program = shutil.which("nvidia-smi")
    if not program:
        return []
    listed = subprocess.run([program, "-L"], capture_output=True, text=True, check=False)  # noqa: S603  found on the PATH, no input
    return [line.partition(" (UUID")[0] for line in listed.stdout.splitlines() if line.startswith("GPU ")]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
