"""Where backends run in a cluster: in which Python, and on which nodes by their resources and labels.

The environment variable `DIFFTEST_ENVIRONMENTS` names a TOML file. The first entry whose pattern matches a
backend is its environment. Everything but `backends` can be left out:

    [[environment]]
    backends = "xla_*"                # as in a shell; `*` matches the oracle too
    python = "/opt/xla/bin/python"    # on the nodes; with difftest and this version of Ray and of Python
    path = "/opt/difftest"            # where difftest is on the nodes, if that Python does not have it
    resources = { TPU = 4 }           # of one worker; Ray's names: CPU, GPU, TPU, or a cluster's own
    labels = { "ray.io/accelerator-type" = "TPU-V5E" }
    nodes = 1                         # that share the ranks of one case, each with these resources
    workers = 1                       # the most at a time; by default as many as --workers
    seconds_to_place = 900            # a cloud's machines start slowly

A backend may be named with its environment, to compare one version with another: `--backends
xla_spmd@2.8,xla_spmd@2.9`. Such names match only patterns with an `@`, such as `*@2.8`, and those patterns
match no other names. Where the file has no such pattern, the name is that of an environment that `difftest
environments make` has made on this machine.

The variables that choose devices on the driver (`PJRT_DEVICE`, `DIFFTEST_SHARE_GPUS`) hold on all nodes.
Without a file all backends run in this Python. In a cluster whose nodes differ, torch's backends and torchax
then run on the nodes with GPUs. The backends of torch_xla run on the nodes with TPU chips wherever there are
any, one worker per node with all of the node's chips, because only one process can use libtpu.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from difftest.ground import made_environments
from difftest.ground.errors import UsageError
from difftest.ground.plugins import IN
from workers.isolate import zygotes
from workers.torch.devices import SHARE_VARIABLE

VARIABLE = "DIFFTEST_ENVIRONMENTS"

PLACEMENT_SECONDS = 180.0
"""How long the cluster may take to place a worker before its lack of resources counts as an error.

Ray does not distinguish a cluster without room from one whose processes are slow to start. With four busy
neighbours on 2 cores starting took 52 s, and on a busier machine a limit of 60 s failed although five nodes
had room for all workers.
"""

CHOOSING = ("PJRT_DEVICE", SHARE_VARIABLE)
"""Environment variables by which a user chooses devices."""

ACCELERATORS = {"GPU": "torch*", "TPU": "xla_*"}
"""Ray's accelerator resources, each with the backends that use it.

torchax runs where torch runs, on a GPU.
"""

EXCLUSIVE = "TPU"
"""The accelerator that only one process can use; several processes can share a GPU."""

Resources: TypeAlias = Mapping[str, float]


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where some backends run; the module's docstring explains the fields.

    Raises `ValueError` for an amount that is not more than 0.
    """

    backends: str = "*"
    python: str | None = None
    path: str | None = None
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    nodes: int = 1
    workers: int | None = None
    seconds_to_place: float = PLACEMENT_SECONDS

    def __post_init__(self) -> None:
        amounts = {
            **self.resources,
            "nodes": self.nodes,
            "workers": 1 if self.workers is None else self.workers,
            "seconds_to_place": self.seconds_to_place,
        }
        for name, amount in amounts.items():
            if not amount > 0:
                msg = f"{name} is {amount}; it must be more than 0"
                raise ValueError(msg)

    @property
    def plain(self) -> bool:
        """Whether it requests nothing: any node will do, with one CPU per worker."""
        return not (self.python or self.path or self.resources or self.labels) and self.nodes == 1

    def options(self) -> dict[str, Any]:
        """The arguments of Ray's `.options` for one worker."""
        custom = {name: amount for name, amount in self.resources.items() if name not in ("CPU", "GPU")}
        usual = {"num_cpus": self.resources.get("CPU", 0), "num_gpus": self.resources.get("GPU", 0)}
        return (
            usual
            | {"resources": custom, "label_selector": self.labels or None}
            | runtime(self.python, self.path)
        )

    def bundle(self) -> dict[str, float]:
        """What each of several nodes gives to one worker.

        A CPU where nothing is requested, since Ray accepts no empty bundle.
        """
        return self.resources or {"CPU": 1}

    def __str__(self) -> str:
        resources = [f"{amount:g} {name}" for name, amount in self.resources.items()]
        needs = resources + [f"{name}={value}" for name, value in self.labels.items()]
        return f"backends {self.backends}" + (f" ({', '.join(needs)})" if needs else "")


PLAIN = Environment()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    environment: tuple[Environment, ...]


def configured() -> tuple[Environment, ...] | None:
    """The environments of the file in `DIFFTEST_ENVIRONMENTS`; None without one.

    Raises `UsageError` where the file cannot be used.
    """
    name = os.environ.get(VARIABLE)
    return read(Path(name)) if name else None


def read(file: Path) -> tuple[Environment, ...]:
    """The environments of a file. Raises `UsageError` with the reason where it cannot be used."""
    try:
        return msgspec.convert(tomllib.loads(file.read_text()), _File).environment
    except (
        OSError,
        UnicodeDecodeError,
        tomllib.TOMLDecodeError,
        msgspec.ValidationError,
        RecursionError,
    ) as error:
        msg = f"environments file {file} cannot be used: {error}"
        raise UsageError(msg) from error


def by_accelerators(nodes: Iterable[Resources]) -> tuple[Environment, ...]:
    """The environments that the accelerators of `nodes`, given by their resources, imply.

    Each side's backends run where its accelerators are, if not all nodes have them; those of TPUs always do.
    """
    nodes = tuple(nodes)
    amounts = {name: [node[name] for node in nodes if node.get(name)] for name in ACCELERATORS}
    return tuple(
        Environment(
            backends=ACCELERATORS[name],
            resources={name: min(present)},
            workers=len(present) if name == EXCLUSIVE else None,
        )
        for name, present in amounts.items()
        if present and (name == EXCLUSIVE or len(present) < len(nodes))
    )


def of(backend: str, environments: Iterable[Environment]) -> Environment:
    """The first environment whose pattern matches `backend`; the plain one where none does.

    Raises `UsageError` where the backend's name has an environment that no pattern matches.
    """
    named = IN in backend
    matching = (
        one for one in environments if (IN in one.backends) == named and fnmatchcase(backend, one.backends)
    )
    environment = next(matching, PLAIN)
    return _made(backend) if named and environment is PLAIN else environment


def _made(backend: str) -> Environment:
    """The environment of this machine that the name of `backend` ends with; `UsageError` without one."""
    name = backend.partition(IN)[2]
    python = made_environments.python(name)
    if python is None:
        msg = (
            f"backend {backend!r} names an environment; `difftest environments make` must have made "
            f"{name!r}, or the file in {VARIABLE} must have one whose `backends` matches, such as "
            f'"*{IN}{name}"'
        )
        raise UsageError(msg)
    return Environment(
        backends=f"*{IN}{name}", python=str(python), path=os.pathsep.join(zygotes.checkout()) or None
    )


def chosen(backends: Iterable[str]) -> dict[str, str]:
    """What the user has chosen of where `backends` run.

    The environment variables that choose devices with their values, and each backend that has a Python of its
    own with that Python.
    """
    places = configured() or ()
    pythons = {backend: of(backend, places).python for backend in backends}
    return _devices() | {backend: python for backend, python in pythons.items() if python}


def runtime(python: str | None = None, path: str | None = None) -> dict[str, Any]:
    """The `runtime_env` of a worker's process, for Ray's `.options`: its Python and the user's devices.

    `path` is where that Python finds difftest.

    A cluster's nodes were started in environments of their own. Without this, a campaign would not run on the
    devices that its name records.
    """
    variables = _devices() | ({"PYTHONPATH": path} if path else {})
    settings = {"py_executable": python, "env_vars": variables}
    present = {name: value for name, value in settings.items() if value}
    return {"runtime_env": present} if present else {}


def _devices() -> dict[str, str]:
    return {name: value for name in CHOOSING if (value := os.environ.get(name))}
