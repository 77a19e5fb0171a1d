"""The outcome of one run: a `Trace` of every tensor that a rank held, or a `Failure`.

A trace keeps the *pieces*, rank by rank, rather than gathered tensors: putting them together is then plain
numpy, the same for every backend, and copies that should be equal can be compared with each other.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from difftest.cases.layout import Mesh, Placements, Shard, local_slices, replica_groups
from difftest.judge.events import Events, Word
from difftest.judge.stage import Stage

Array: TypeAlias = npt.NDArray[Any]
Environment: TypeAlias = Mapping[str, str]

PARTLY_DETERMINISTIC = "where it can be"
"""The value of `deterministic` in the environment of a run that had to use a nondeterministic kernel."""

NO_MESSAGE = "no message; raised by: "
"""How the `message` of an exception without one begins. The source line that raised it follows."""

NO_DETERMINISTIC = "does not have a deterministic implementation"
"""What torch says of an operation without a deterministic algorithm on a GPU.

The documentation of `torch.use_deterministic_algorithms` lists these operations.
"""


class Symptom(StrEnum):
    """What went wrong, from the mildest to the most severe.

    `UNDEFINED`: numbers differ of which torch's documentation leaves open what they are; it is no fault.
    """

    UNDEFINED = "undefined"
    MISMATCH = "mismatch"
    NONFINITE = "nonfinite"
    CAPABILITY = "capability"
    EXCEPTION = "exception"
    HANG = "hang"
    CRASH = "crash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharded:
    """One tensor as the ranks held it.

    `shape` is the global shape, `dtype` torch's name of the type observed, `placements` those observed.
    `pieces` maps a rank to its local part, in float64, float32, float16 or an integer type (numpy has no
    bfloat16: those values come as float32, losslessly). `devices` are the types of the devices on which the
    ranks held it before it was read; empty where that was not recorded.
    """

    shape: tuple[int, ...]
    dtype: str
    placements: Placements
    pieces: Mapping[int, Array]
    devices: tuple[str, ...] = ()

    @property
    def is_discrete(self) -> bool:
        """Whether it holds integers or booleans: these do not round."""
        return self.dtype.startswith(("int", "uint", "bool"))

    def misfits(self, mesh: Mesh) -> list[str]:
        """One message for each rank whose piece is missing or has another shape than the placements give it.

        Placements that do not fit the tensor or the mesh are reported instead, as one message.
        """
        dims = [p.dim for p in self.placements if isinstance(p, Shard)]
        if len(self.placements) != len(mesh.axes) or max(dims, default=-1) >= len(self.shape):
            placements = ", ".join(map(str, self.placements))
            return [f"placements ({placements}) do not fit {len(self.shape)} dims on the mesh {mesh}"]
        messages = []
        for rank in range(mesh.world_size):
            expected = tuple(s.stop - s.start for s in local_slices(self.shape, self.placements, mesh, rank))
            actual = self.pieces[rank].shape if rank in self.pieces else None
            if actual != expected:
                messages.append(f"rank {rank} holds {actual}, expected {expected}")
        return messages

    def full(self, mesh: Mesh, copy: int = 0) -> Array:
        """The whole tensor, from rank `copy` of each replica group; only without `misfits`.

        It is in float64, or in int64 where all pieces are of an integer type.
        """
        whole_numbers = all(piece.dtype.kind in "iu" for piece in self.pieces.values())
        whole: Array = np.zeros(self.shape, np.int64) if whole_numbers else np.full(self.shape, np.nan)
        for ranks in replica_groups(self.placements, mesh):
            whole[local_slices(self.shape, self.placements, mesh, ranks[copy])] = self.pieces[ranks[copy]]
        return whole

    def copies(self, mesh: Mesh) -> Iterator[Array]:
        """The whole tensor as each rank of its replica groups holds it, without copies equal to the first."""
        groups = list(replica_groups(self.placements, mesh))
        yield self.full(mesh)
        for copy in range(1, len(groups[0])):
            if not all(
                np.array_equal(self.pieces[ranks[0]], self.pieces[ranks[copy]], equal_nan=True)
                for ranks in groups
            ):
                yield self.full(mesh, copy)

    def merged(self, other: "Sharded") -> "Sharded":
        """The same tensor with the pieces of further ranks."""
        devices = tuple(sorted({*self.devices, *other.devices}))
        return dataclasses.replace(self, pieces={**self.pieces, **other.pieces}, devices=devices)


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The request that an outcome answers: the case's id, the backend, and a number of this request alone."""

    case: Word
    backend: Word
    number: Word


Tensors: TypeAlias = Mapping[tuple[Stage, str], Sharded]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A run that finished: per step, the tensors by stage and name.

    Forward: `loss`, and `output` of each accumulation part (`output`, `output.1`, ...). Backward: gradients
    by parameter name, before clipping. Update: parameters by name. `noise` is the oracle's: the deviation
    that rounding causes in each tensor, in the same order as `steps`. `origin` is the request that the run
    answers; None where that was not recorded.
    """

    steps: tuple[Tensors, ...]
    noise: tuple[Tensors, ...] = ()
    environment: Environment = field(default_factory=dict)
    events: Events = field(default_factory=Events)
    origin: Origin | None = None

    def merged(self, other: "Trace") -> "Trace":
        """The traces of two processes of one run as one; tensors that only one of them has are kept."""
        steps = tuple(
            {
                key: mine[key].merged(theirs[key])
                if key in mine and key in theirs
                else {**theirs, **mine}[key]
                for key in {**mine, **theirs}
            }
            for mine, theirs in zip(self.steps, other.steps, strict=True)
        )
        events = self.events.merged(other.events)
        return Trace(steps=steps, environment=self.environment, events=events, origin=self.origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A run that did not finish.

    `kind` identifies the failure without its numbers: an exception's type, a signal's name, or `exit status
    N`. `message` is the last line that the failure gave, `log` the tail of standard error, `frame` the
    innermost frame of the framework as `file:function`; empty where the innermost is this project's own.
    `operator` names the operator of a program that was running, such as `add`; empty outside of one.
    `origin` is as in a `Trace`.
    """

    symptom: Symptom
    stage: Stage
    step: int
    kind: str
    message: str = ""
    frame: str = ""
    log: str = ""
    operator: str = ""
    rank: int = 0
    environment: Environment = field(default_factory=dict)
    origin: Origin | None = None


Outcome: TypeAlias = Trace | Failure


def dies(failure: Failure) -> bool:
    """Whether a run ended by a crash or a hang, and raised nothing."""
    return failure.symptom in {Symptom.CRASH, Symptom.HANG}
