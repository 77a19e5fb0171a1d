"""What `difftest environments make` installs: by name, what each environment is for and how large it is."""

import dataclasses
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from difftest.findings.faults import NEWEST
from difftest.ground import installed, made_environments
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.installed import index

NEWEST_TORCH = f"torch=={NEWEST['torch']}"

SHARED = ("ray",)
"""What must have the same version as here: Ray's workers run in these environments."""

GIBIBYTE = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecipe:
    """One environment: `requirements` beside difftest's own; `gibibytes` on disk and `minutes` to make it.

    Both are rough: with the CUDA libraries that torch's wheels require, on a fast network. `python` is the
    least version that the packages need, as `3.12`; empty where this one will do. `for_backends`: backends
    can run there, so that it has what difftest requires, and Ray. Others are for scripts alone.
    """

    about: str
    requirements: tuple[str, ...]
    gibibytes: int = 7
    minutes: int = 5
    python: str = ""
    for_backends: bool = True


RECIPES = {
    "newest": EnvironmentRecipe(
        about="the newest torch, without XLA",
        requirements=(NEWEST_TORCH, "safetensors"),  # which checkpoints may be in
    ),
    "torch_tpu": EnvironmentRecipe(
        about="TorchTPU, with XLA:CPU in place of a TPU",
        requirements=(NEWEST_TORCH, f"torch_tpu=={NEWEST['torch_tpu']}", "xla-cpu-pjrt==0.0.1"),
        gibibytes=8,
    ),
    "torch_xla": EnvironmentRecipe(
        about="the last torch_xla, with its torch",
        requirements=("torch==2.9.0", "torch_xla==2.9.0", "jax==0.7.1", "jaxlib==0.7.1"),
        gibibytes=8,
    ),
    "torchax": EnvironmentRecipe(
        about="torchax on the newest JAX that it works with",
        requirements=("torch==2.9.0", "torchax==0.0.13", "jax==0.10.2", "flax"),
    ),
    "jax": EnvironmentRecipe(
        about="the newest XLA that jaxlib has, for scripts alone",
        requirements=(f"jax=={NEWEST['jaxlib']}", f"jaxlib=={NEWEST['jaxlib']}"),
        gibibytes=1,
        minutes=1,
        python="3.12",
        for_backends=False,
    ),
}

RELEASED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "torch": ("newest", ("torch",)),
    "torch_xla": ("torch_xla", ("torch", "torch_xla")),
    "torch_tpu": ("torch_tpu", ("torch_tpu",)),
    "torchax": ("torchax", ("torchax",)),
    "jax": ("jax", ("jax", "jaxlib")),
}
"""By package, the recipe in which any release of it takes the place, and what has that release's version."""

ANY = re.compile(rf"(?P<package>{'|'.join(RELEASED)})==(?P<version>[0-9][0-9a-z.+]*)")
"""How any other release is named; its environment is called `torch_` or the like with the version."""

ALLOWED = ", ".join((*RECIPES, *(f"{package}==VERSION" for package in RELEASED)))


def recipe(wanted: str) -> tuple[str, EnvironmentRecipe]:
    """The name of an environment and its recipe; `UsageError` for one that there is not.

    The package index says which Python a release that is no recipe needs.
    """
    if wanted in RECIPES:
        return wanted, RECIPES[wanted]
    if named := ANY.fullmatch(wanted):
        return of_release(**named.groupdict())
    msg = f"unknown environment {wanted!r}; allowed: {ALLOWED}"
    raise UsageError(msg)


def of_release(package: str, version: str, address: str = "") -> tuple[str, EnvironmentRecipe]:
    """The name of the environment of a release, and its recipe; `address` is as in `index.releases`."""
    base, pinned = RELEASED[package]
    requirements = tuple(
        f"{name}=={version}" if name in pinned else requirement
        for requirement in RECIPES[base].requirements
        for name in [requirement.partition("==")[0]]
    )
    chosen = dataclasses.replace(
        RECIPES[base],
        about=f"{package} {version}, in place of the release in {base!r}",
        requirements=requirements,
        python=index.python_of((f"{name}=={version}" for name in pinned), address),
    )
    return f"{package}_{version.partition('+')[0]}", chosen


def everything(chosen: EnvironmentRecipe) -> tuple[str, ...]:
    """All that is installed: the recipe's requirements and, where backends run, difftest's own and Ray.

    Ray has the version that it has here. difftest itself is not installed: the runs use the one that starts
    them. `UsageError` where Ray is not installed.
    """
    if not chosen.for_backends:
        return chosen.requirements
    shared = installed.versions(*SHARED)
    if missing := {*SHARED} - {*shared}:
        msg = f"{', '.join(missing)} is not installed here; it is in: pip install -e '.[cluster]'"
        raise UsageError(msg)
    own = [line for line in metadata.requires("difftest") or () if "extra ==" not in line]
    return (*chosen.requirements, *own, *(f"{name}=={version}" for name, version in shared.items()))


def require_space(chosen: EnvironmentRecipe, folder: Path) -> None:
    """Raises `InfrastructureError` where the disk has no room for an environment."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free / GIBIBYTE
    if free < chosen.gibibytes:
        msg = (
            f"{str(there)!r} has {free:.1f} GiB free; the environment needs {chosen.gibibytes} "
            f"(another folder: {made_environments.VARIABLE})"
        )
        raise InfrastructureError(msg)
