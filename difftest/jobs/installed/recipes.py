"""What `difftest environments make` installs: by name, what each environment is for and how large it is."""

import re
import shutil
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from difftest.findings.faults import NEWEST
from difftest.ground import installed, made_environments
from difftest.ground.errors import InfrastructureError, UsageError

NEWEST_TORCH = f"torch=={NEWEST['torch']}"

SHARED = ("ray",)
"""What must have the same version as here: Ray's workers run in these environments."""

GIBIBYTE = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One environment: `requirements` beside difftest's own; `gibibytes` on disk and `minutes` to make it.

    Both are rough: with the CUDA libraries that torch's wheels require, on a fast network.
    """

    about: str
    requirements: tuple[str, ...]
    gibibytes: int = 7
    minutes: int = 5


RECIPES = {
    "newest": Recipe(about="the newest torch, without XLA", requirements=(NEWEST_TORCH,)),
    "torch_tpu": Recipe(
        about="TorchTPU, with XLA:CPU in place of a TPU",
        requirements=(NEWEST_TORCH, f"torch_tpu=={NEWEST['torch_tpu']}", "xla-cpu-pjrt==0.0.1"),
        gibibytes=8,
    ),
    "torch_xla": Recipe(
        about="the last torch_xla, with its torch",
        requirements=("torch==2.9.0", "torch_xla==2.9.0", "jax==0.7.1", "jaxlib==0.7.1"),
        gibibytes=8,
    ),
    "torchax": Recipe(
        about="torchax on the newest JAX that it works with",
        requirements=("torch==2.9.0", "torchax==0.0.13", "jax==0.10.2", "flax"),
    ),
}

ANY_TORCH = re.compile(r"torch==(?P<version>[0-9][0-9a-z.]*)")
"""How any other torch is named; its environment is called `torch_` with the version."""

ALLOWED = ", ".join((*RECIPES, "torch==VERSION"))


def recipe(wanted: str) -> tuple[str, Recipe]:
    """The name of an environment and its recipe; `UsageError` for one that there is not."""
    if wanted in RECIPES:
        return wanted, RECIPES[wanted]
    if torch := ANY_TORCH.fullmatch(wanted):
        version = torch["version"]
        return f"torch_{version}", Recipe(about=f"torch {version}", requirements=(wanted,))
    msg = f"unknown environment {wanted!r}; allowed: {ALLOWED}"
    raise UsageError(msg)


def everything(chosen: Recipe) -> tuple[str, ...]:
    """All that is installed: the recipe's requirements, difftest's own, and Ray in this Python's version.

    difftest itself is not: the runs use the one that starts them. `UsageError` where Ray is not installed.
    """
    shared = installed.versions(*SHARED)
    if missing := {*SHARED} - {*shared}:
        msg = f"{', '.join(missing)} is not installed here; it is in: pip install -e '.[cluster]'"
        raise UsageError(msg)
    own = [line for line in metadata.requires("difftest") or () if "extra ==" not in line]
    return (*chosen.requirements, *own, *(f"{name}=={version}" for name, version in shared.items()))


def require_space(chosen: Recipe, folder: Path) -> None:
    """Raises `InfrastructureError` where the disk has no room for an environment."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free / GIBIBYTE
    if free < chosen.gibibytes:
        msg = (
            f"{str(there)!r} has {free:.1f} GiB free; the environment needs {chosen.gibibytes} "
            f"(another folder: {made_environments.VARIABLE})"
        )
        raise InfrastructureError(msg)
