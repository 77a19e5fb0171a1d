"""The files of a recorded run, which numpy and a JSON reader can read without this program.

A run is a folder. Every rank appends to its own files:

* `rank-00000.jsonl`: one JSON object a line. The first is the environment, every new tensor has a line before
  it is first recorded, and every recorded step has one when it is complete.
* `rank-00000.f64`: a matrix of little-endian float64 numbers with `WIDTH` columns, a row for each tensor of
  each recorded step: `numpy.fromfile(file, "<f8").reshape(-1, WIDTH)`.
* `rank-00000.step-00000003.npz`: the whole tensors that were requested, and what their modules were given.
"""

from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]

VERSION = 1

RECORDING = "DIFFTEST_RECORDING"
"""The environment variable with a folder for the recording, which replaces that of the script."""

BUCKETS = 64
"""The numbers of a sketch. It estimates the norm of a difference to about 10 %."""

SQUARES, LEAST, GREATEST, NANS, INFS, ELEMENTS = range(BUCKETS, BUCKETS + 6)
"""The columns behind a sketch: the sum of squares, the extrema, and three counts."""

WIDTH = BUCKETS + 6

INPUT, START, OUTPUT, BUFFER, OUTPUT_GRADIENT, GRADIENT, UPDATED = (
    "input",
    "start",
    "output",
    "buffer",
    "output gradient",
    "gradient",
    "updated",
)
"""What a tensor is.

An input of the model, a parameter before the first step, a module's output, a buffer after the step, the
output's gradient, a parameter's gradient as the optimizer gets it, and a parameter after its update.
"""

KINDS = (INPUT, START, OUTPUT, BUFFER, OUTPUT_GRADIENT, GRADIENT, UPDATED)

PARAMETERS = frozenset({START, GRADIENT, UPDATED})
"""The kinds that belong to a parameter, whose copies on several ranks are equal."""

OWN_TO_RANKS = frozenset({OUTPUT, BUFFER, OUTPUT_GRADIENT})
"""The kinds whose plain tensors may rightly differ between ranks that see other samples."""


ARGUMENT, PARAMETER = "argument", "parameter"
"""How the names of a module's whole arguments and parameters begin in an npz file: `argument:attn:0`."""


class NamedShare(msgspec.Struct, frozen=True, kw_only=True):
    """Which share of a tensor a rank has. Shares with equal `name` are copies; the others add up."""

    name: str = "whole"
    words: str = ""


class Tensor(msgspec.Struct, frozen=True, kw_only=True, tag="tensor"):
    """A tensor of a rank. `shape` is the whole tensor's; where it is a batch's, dim 0 is that of this rank.

    `owner` is the module's path, or the parameter's. `place` numbers a module's outputs and calls. `piece` is
    what this rank has. `comparable` is false where the rank does not know which elements it has. `mesh` are
    the axes of a DTensor's mesh with their sizes, `cut` the dim that each axis cuts, None for none. `users`
    are the innermost modules that took the output of which this is the gradient.
    """

    id: int
    kind: str
    owner: str
    place: str = ""
    shape: tuple[int, ...]
    dtype: str
    piece: NamedShare = NamedShare()
    batched: bool = False
    comparable: bool = True
    mesh: tuple[tuple[str, int], ...] = ()
    cut: tuple[int | None, ...] = ()
    users: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies the tensor in a run, on every rank."""
        return self.kind, self.owner, self.place


class Step(msgspec.Struct, frozen=True, kw_only=True, tag="step"):
    """A recorded step of a rank. The rows of its tensors begin at `row`, in the order of `tensors`.

    `digests` are those of the inputs: sums over the samples, which do not depend on their order.
    """

    step: int
    row: int
    tensors: tuple[int, ...]
    loss: float | None = None
    rates: tuple[float, ...] = ()
    microbatches: int = 0
    samples: int = 0
    digests: dict[str, tuple[int, int, int]] = {}


class ModuleDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A module: its path, its class, and its arguments as it prints them."""

    path: str
    kind: str
    arguments: str = ""


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """An installed package: its version, and the packages of which it requires one version alone."""

    version: str
    pins: tuple[str, ...] = ()


class RankEnvironment(msgspec.Struct, frozen=True, kw_only=True, tag="environment"):
    """What a rank's numbers may depend on. `settings` has everything else that may differ, by name."""

    version: int = VERSION
    rank: int
    world_size: int
    data_ranks: int = 1
    settings: dict[str, str]
    modules: tuple[ModuleDescription, ...] = ()
    parameters: tuple[str, ...] = ()
    perturbed: float = 0.0
    every: int = 1
    packages: dict[str, Package] = {}


Line: TypeAlias = RankEnvironment | Tensor | Step


def encoded(line: Line) -> bytes:
    """A line of a rank's file."""
    return msgspec.json.encode(line) + b"\n"


def stem(rank: int) -> str:
    """How the names of a rank's files begin."""
    return f"rank-{rank:05}"
