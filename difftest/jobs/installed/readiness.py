"""Whether this machine can run a campaign: what is checked beside packages and devices, and the verdict."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import psutil

from difftest.jobs.ask.capacity import most_ranks
from workers.isolate.limits import GIBIBYTE, memory_limit

RANK_GIBIBYTES = 0.5
"""About what a rank of a small case holds on the CPU, torch and torch_xla loaded."""

LEAST_DISK_GIBIBYTES = 1.0
"""A night of 5000 cases writes some 0.3 GB of lines, and as much for a moment of its runs."""

REQUIRED = ("numpy", "pandas", "pyarrow", "hypothesis", "ray", "torch")
"""Without one of these packages no campaign runs."""

SIDE = {"torch_xla": "the XLA side"}
"""What does not run without a package that is not required."""

BRINGS = {
    "jax": "Pallas kernels (flash attention on XLA)",
    "torchax": "what torch_xla does by JAX (a GRU or a scan on XLA), and the backends torchax and xla_splash",
    "flax": "what torch_xla does by JAX (a GRU or a scan on XLA), and the backends torchax and xla_splash",
}
"""What an optional package brings; without it a case that needs that is refused, which is no finding."""


class State(StrEnum):
    """What a check came to."""

    GOOD = "ok"
    LIMITED = "limited"
    BAD = "not ready"


class MachineCheck(NamedTuple):
    """One thing that was checked, what it came to, and that in words."""

    name: str
    state: State
    words: str


def checks(
    packages: Mapping[str, str | None], missing: Mapping[str, str], folder: Path
) -> tuple[MachineCheck, ...]:
    """All checks; `missing` are the packages that are not installed, with how to install them."""
    return (*_packages(packages, missing), _token(os.environ), _compiler(), _memory(), *_disk(folder))


def verdict(results: Sequence[MachineCheck]) -> str:
    """The checks in one sentence: what is wrong or limited comes with its reason."""
    bad = [check for check in results if check.state is State.BAD]
    limited = [check for check in results if check.state is State.LIMITED]
    if bad:
        return f"not ready: {'; '.join(check.words for check in bad)}"
    if limited:
        return f"ready, within limits: {'; '.join(check.words for check in limited)}"
    return "ready: both sides run here"


def _packages(packages: Mapping[str, str | None], missing: Mapping[str, str]) -> Iterator[MachineCheck]:
    """A check for each package that is missing and that something depends on."""
    for name in missing:
        how = missing[name] or f"pip install {name}"
        if name in REQUIRED:
            yield MachineCheck(name, State.BAD, f"{name} is missing ({how})")
        elif name in SIDE:
            yield MachineCheck(name, State.LIMITED, f"without {name}, {SIDE[name]} does not run ({how})")
        elif name in BRINGS:
            yield MachineCheck(
                name, State.LIMITED, f"without {name}, {BRINGS[name]} are not supported ({how})"
            )
    if not missing:
        yield MachineCheck("packages", State.GOOD, f"{len(packages)} packages are installed")


def _token(environment: Mapping[str, str]) -> MachineCheck:
    """How Ray keeps others from running code here.

    The names of Ray's variables are those of `workers.cluster.token`, which needs Ray.
    """
    mode, address = environment.get("RAY_AUTH_MODE"), environment.get("RAY_ADDRESS")
    if mode is not None and mode.lower() != "token":
        words = f"RAY_AUTH_MODE is {mode!r}; every cluster must require a token (docs/campaigns.md)"
        return MachineCheck("Ray's token", State.BAD, words)
    if address and not (environment.get("RAY_AUTH_TOKEN") or _token_file(environment)):
        words = f"RAY_ADDRESS is {address!r}, and there is no RAY_AUTH_TOKEN for that cluster"
        return MachineCheck("Ray's token", State.BAD, words)
    words = f"that of {address}" if address else "made anew for each instance that is started here"
    return MachineCheck("Ray's token", State.GOOD, words)


def _token_file(environment: Mapping[str, str]) -> bool:
    """Whether Ray finds a token in a file, its default place among others."""
    path = environment.get("RAY_AUTH_TOKEN_PATH")
    return (Path(path) if path else Path.home() / ".ray" / "auth_token").is_file()


def _compiler() -> MachineCheck:
    """The C compiler, with which crashes get the names of their native functions."""
    compiler = shutil.which("cc")
    if compiler:
        return MachineCheck("C compiler", State.GOOD, compiler)
    return MachineCheck(
        "C compiler", State.LIMITED, "without a C compiler (cc), crashes have no native frames"
    )


def _memory() -> MachineCheck:
    """The memory for each rank of the largest mesh, and what a run may hold."""
    free, ranks = psutil.virtual_memory().available / GIBIBYTE, min(8, most_ranks())
    limit = memory_limit() / GIBIBYTE
    words = f"{free / ranks:.1f} GiB for each of {ranks} ranks; a run may hold {limit:.0f} GiB"
    if free / ranks >= RANK_GIBIBYTES:
        return MachineCheck("memory", State.GOOD, words)
    most = max(1, int(free / RANK_GIBIBYTES))
    return MachineCheck("memory", State.LIMITED, f"{words}: give --max-world-size {most}")


def _disk(folder: Path) -> Iterator[MachineCheck]:
    """The free space for results and for what runs write meanwhile."""
    places = {"results": folder, "temporary files": Path(tempfile.gettempdir())}
    for name, place in places.items():
        free = shutil.disk_usage(place).free / GIBIBYTE
        words = f"{free:.0f} GiB free in {place}"
        enough = free >= LEAST_DISK_GIBIBYTES
        short = f"{free:.2f} GiB free for {name} in {place}; {LEAST_DISK_GIBIBYTES:g} GiB are needed"
        yield MachineCheck(f"disk, {name}", State.GOOD if enough else State.BAD, words if enough else short)
