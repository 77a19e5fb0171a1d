"""Where backends run in a cluster: under which Python, and on which nodes by their resources and labels.

The environment variable `DIFFTEST_ENVIRONMENTS` names a TOML file; the first entry whose pattern fits a backend is its environment:

    [[environment]]
    backends = "xla_*"                              # as in a shell; `*` fits the oracle too
    python = "/opt/xla/bin/python"                  # on the nodes; difftest and this Ray and Python version are installed there
    resources = { TPU = 4 }                         # of one worker; Ray's names: CPU, GPU, TPU, or a cluster's own
    labels = { "ray.io/accelerator-type" = "TPU-V5E" }
    nodes = 1                                       # that share the ranks of one case, each with these resources
    workers = 1                                     # at most so many; as many as --workers says otherwise
    seconds_to_place = 900                          # a cloud's machines start slowly

A backend may be named with its environment, so that one version is held against another: `--backends xla_spmd@2.8,xla_spmd@2.9`. Such names
fit patterns with an `@` alone, as `*@2.8`, and those without one no others.

Everything but `backends` can be left out. What chooses devices for the driver (`PJRT_DEVICE`, `DIFFTEST_SHARE_GPUS`) holds on all nodes.
Without a file all backends run under this Python; in a cluster whose nodes differ, torch's and torchax run on the nodes with GPUs.
torch_xla's run on those with TPU chips wherever there are any, each worker with all of its node's, and one worker a node: libtpu belongs to
one process.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from difftest.errors import UsageError
from difftest.plugins import IN
from workers.torch.devices import SHARE_VARIABLE

VARIABLE = "DIFFTEST_ENVIRONMENTS"

PLACEMENT_SECONDS = 180.0
"""How long the cluster may take to place a worker before its lack of resources is called an error.

Ray does not tell a cluster without room from one whose processes are slow to start: with four busy neighbours on 2 cores that took 52 s,
and on a busier machine 60 s called five nodes with room for all too few.
"""

CHOOSING = ("PJRT_DEVICE", SHARE_VARIABLE)
"""Variables by which a user chooses devices."""

ACCELERATORS = {"GPU": "torch*", "TPU": "xla_*"}
"""Whose backends use which of Ray's resources; torchax is to meet torch on a card."""

EXCLUSIVE = "TPU"
"""The accelerator that one process has for itself; several share a GPU."""

Resources: TypeAlias = Mapping[str, float]


class Environment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where some backends run; see the module. `ValueError` for amounts that cannot be."""

    backends: str = "*"
    python: str | None = None
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
        """Whether it asks for nothing: any node will do, with a CPU a worker."""
        return not (self.python or self.resources or self.labels) and self.nodes == 1

    def options(self) -> dict[str, Any]:
        """What a worker is made with, as Ray's `.options` takes it."""
        named = {name: amount for name, amount in self.resources.items() if name not in ("CPU", "GPU")}
        asked = {"num_cpus": self.resources.get("CPU", 0), "num_gpus": self.resources.get("GPU", 0)}
        return asked | {"resources": named, "label_selector": self.labels or None} | runtime(self.python)

    def bundle(self) -> dict[str, float]:
        """What each of several nodes gives to one worker; a CPU where nothing is asked for, for Ray takes no empty bundle."""
        return self.resources or {"CPU": 1}

    def __str__(self) -> str:
        told = [f"{amount:g} {name}" for name, amount in self.resources.items()] + [
            f"{name}={value}" for name, value in self.labels.items()
        ]
        return f"backends {self.backends}" + (f" ({', '.join(told)})" if told else "")


PLAIN = Environment()


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    environment: tuple[Environment, ...]


def given() -> tuple[Environment, ...] | None:
    """What the file in `DIFFTEST_ENVIRONMENTS` says; None without one. `UsageError` where it cannot be used."""
    name = os.environ.get(VARIABLE)
    return read(Path(name)) if name else None


def read(file: Path) -> tuple[Environment, ...]:
    """The environments of a file. `UsageError` saying what is wrong with it."""
    try:
        return msgspec.convert(tomllib.loads(file.read_text()), _File).environment
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        msg = f"environments file {file} cannot be used: {error}"
        raise UsageError(msg) from error


def found(nodes: Iterable[Resources]) -> tuple[Environment, ...]:
    """What `nodes`, given by their resources, ask for: each side's backends go where its accelerators are, if not all nodes have them."""
    nodes = tuple(nodes)
    amounts = {name: [node[name] for node in nodes if node.get(name)] for name in ACCELERATORS}
    some = {
        name: have for name, have in amounts.items() if have and (name == EXCLUSIVE or len(have) < len(nodes))
    }
    return tuple(
        Environment(
            backends=ACCELERATORS[name],
            resources={name: min(have)},
            workers=len(have) if name == EXCLUSIVE else None,
        )
        for name, have in some.items()
    )


def of(backend: str, environments: Iterable[Environment]) -> Environment:
    """The first environment whose pattern fits `backend`; the plain one where none does. `UsageError` where it names a missing one."""
    named = IN in backend
    fitting = (
        one for one in environments if (IN in one.backends) == named and fnmatchcase(backend, one.backends)
    )
    environment = next(fitting, PLAIN)
    if named and environment is PLAIN:
        msg = f'backend {backend!r} names an environment; the file in {VARIABLE} must have one whose `backends` fits it, as "*{IN}..."'
        raise UsageError(msg)
    return environment


def chosen(backends: Iterable[str]) -> dict[str, str]:
    """What the user says of where `backends` run: the variables that choose devices, and by backend the Python that is its own."""
    places = given() or ()
    pythons = {backend: of(backend, places).python for backend in backends}
    return _devices() | {backend: python for backend, python in pythons.items() if python}


def runtime(python: str | None = None) -> dict[str, Any]:
    """What a worker's process is started with, as Ray's `.options` takes it: a Python, and the devices that the driver's user chose.

    A cluster's nodes were started in environments of their own: without this a campaign would not be what it is named by.
    """
    told = {name: value for name, value in {"py_executable": python, "env_vars": _devices()}.items() if value}
    return {"runtime_env": told} if told else {}


def _devices() -> dict[str, str]:
    return {name: value for name in CHOOSING if (value := os.environ.get(name))}
