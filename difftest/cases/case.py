"""A case: everything that must be equal on every backend, and nothing else.

Cases are immutable and named by their content: `Case.id` is the start of the SHA-256 of the canonical JSON
(keys sorted, no white space), so it is the same on every machine and under every hash seed.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self, TypeAlias

import msgspec

from difftest.cases import unreadable
from difftest.cases.layers import walk
from difftest.cases.layout import ALONE, Layout, Placements, Replicate, has_shares, replicated
from difftest.cases.model import Model
from difftest.cases.options import (
    TORCH_KERNELS,
    USUAL_KERNELS,
    WHOLE,
    Feature,
    Replication,
    SdpaKernel,
    Spelling,
    Start,
)
from difftest.cases.pipelining import AXIS, Pipeline
from difftest.cases.wrapping import Dispatch, Regions, Sharding
from difftest.ground.errors import UsageError

SCHEMA = 2
MOST_STEPS = 200
MOST_BATCH = 256
ID_LENGTH = 12

DType: TypeAlias = Literal["float32", "bfloat16", "float16", "float64"]
Regime: TypeAlias = Literal[
    "normal",
    "exact",
    "large",
    "tiny",
    "ties",
    "zeros",
    "sharp",
    "kinks",
    "nonfinite",
    "offset",
    "denormal",
    "signed_zeros",
    "extreme",
    "boundary",
]
"""The kind of numbers. Those from `kinks` on are for programs (`difftest.cases.layers.operator`)."""


class Training(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the model is trained: `steps` updates, each from `accumulation` equal parts of the batch.

    `clip_norm` is the greatest global gradient norm, or None for no clipping. `checkpointing`: residual
    blocks are computed again in the backward pass. With the optimizer `none`, parameters stay as they are;
    the loss `cotangent` is the sum of a program's results times drawn numbers, `first_cotangent` that of the
    first with a gradient alone. The optimizer and the loss `own` are those that a module of the user's brings
    (`difftest.cases.layers.own`). Numbers become floats: 1 and 1.0 are one case. `ValueError` out of range.
    """

    optimizer: Literal["sgd", "momentum", "adam", "adamw", "none", "own"] = "sgd"
    learning_rate: float = 0.125
    steps: int = 1
    accumulation: int = 1
    clip_norm: float | None = None
    loss: Literal["mse", "cross_entropy", "cotangent", "first_cotangent", "own"] = "mse"
    checkpointing: bool = False

    def __post_init__(self) -> None:
        _within("learning_rate", self.learning_rate, 0.0, 10.0)
        _within("steps", self.steps, 1, MOST_STEPS)
        _within("accumulation", self.accumulation, 1, 8)
        if self.clip_norm is not None:
            _within("clip_norm", self.clip_norm, 1e-6, 1e6)
            msgspec.structs.force_setattr(self, "clip_norm", float(self.clip_norm))
        msgspec.structs.force_setattr(self, "learning_rate", float(self.learning_rate))


class Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the model is fed. `batch` is the number of rows in a step, over all ranks and accumulation parts.

    `regime` is the kind of numbers. `ignored` is the share of targets that cross-entropy must skip.
    `learnable`: the targets come from a teacher and every step gets the same batch, so that training can
    solve the task. `ValueError` if a number is out of range.
    """

    batch: int
    regime: Regime = "normal"
    ignored: float = 0.0
    learnable: bool = False

    def __post_init__(self) -> None:
        _within("batch", self.batch, 1, MOST_BATCH)
        _within("ignored", self.ignored, 0.0, 0.9)
        msgspec.structs.force_setattr(self, "ignored", float(self.ignored))


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One training configuration. `ValueError` if its parts contradict each other.

    `path` names the parallelism path that it was generated for. `sdpa` is the kernel that flash attention on
    torch's side uses if the device has it and it takes the tensors; if unset, the backend chooses. `spelling`
    is unset where every form is the workers' own, and without whole numbers it has no `integers`. `features`
    are what the program does beside forward, backward and update, `sharding` and `regions` what wrappers are
    told, `dispatch` how rows reach experts, `pipeline` how the model is cut into stages; unset where that is
    nothing. `seed` decides all random numbers. `schema` is the structure's version.
    """

    path: str
    model: Model
    layout: Layout
    training: Training
    data: Data
    dtype: DType = "float32"
    replication: Replication = Replication()
    start: Start = Start()
    sdpa: SdpaKernel | msgspec.UnsetType = msgspec.UNSET
    spelling: Spelling | msgspec.UnsetType = msgspec.UNSET
    features: tuple[Feature, ...] | msgspec.UnsetType = msgspec.UNSET
    sharding: Sharding | msgspec.UnsetType = msgspec.UNSET
    regions: Regions | msgspec.UnsetType = msgspec.UNSET
    dispatch: Dispatch | msgspec.UnsetType = msgspec.UNSET
    pipeline: Pipeline | msgspec.UnsetType = msgspec.UNSET
    seed: int = 0
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        _within("schema", self.schema, 1, SCHEMA)
        _within("seed", self.seed, 0, 2**63 - 1)
        whole = self.forms.integers and self.data.regime in WHOLE
        forms = msgspec.structs.replace(self.forms, integers=whole)
        msgspec.structs.force_setattr(self, "spelling", msgspec.UNSET if forms == Spelling() else forms)
        for name, usual in (
            ("sharding", Sharding()),
            ("regions", Regions()),
            ("dispatch", Dispatch()),
        ):
            if getattr(self, name) == usual:
                msgspec.structs.force_setattr(self, name, msgspec.UNSET)
        self._check_features()
        if self.forms.no_broadcast and self.replication.own_weights:
            msg = "no_broadcast and own_weights are both set; nothing would make the ranks' weights equal"
            raise ValueError(msg)
        shapes = self.model.tensors()
        if set(shapes) != set(self.layout.parameters):
            odd = sorted(set(shapes) ^ set(self.layout.parameters))
            msg = f"layout and model disagree on the parameters {odd}; every parameter needs placements"
            raise ValueError(msg)
        for name, placements in self.layout.parameters.items():
            _check_dims(name, placements, len(shapes[name]))
        _check_dims("the batch", self.layout.batch, 2 if self.model.sequence else 1)
        self._check_shares()
        if self.data.batch % self.training.accumulation:
            parts = self.training.accumulation
            msg = f"batch {self.data.batch} does not divide into {parts} accumulation parts"
            raise ValueError(msg)
        if self.world_size > 1:
            self._check_layers()
            self._check_stages()
        if self.data.ignored and self.training.loss != "cross_entropy":
            msg = f"ignored is {self.data.ignored}; only cross_entropy has ignored targets"
            raise ValueError(msg)

    def _check_features(self) -> None:
        """`ValueError` if a feature is there twice, or a program has one; none leaves the field unset."""
        names = [feature.name for feature in self.training_features]
        if len(set(names)) < len(names):
            msg = f"features are {', '.join(names)}; each is allowed once"
            raise ValueError(msg)
        if names and self.model.is_program:
            msg = f"a program of operators is not trained; it has no feature {names[0]}"
            raise ValueError(msg)
        if not names:
            msgspec.structs.force_setattr(self, "features", msgspec.UNSET)

    def _check_shares(self) -> None:
        """`ValueError` if anything but a float operand of a program is placed as shares of a sum."""
        floats = self.model.parameters() if self.model.is_program else {}
        for name, placements in (("the batch", self.layout.batch), *self.layout.parameters.items()):
            if has_shares(placements) and name not in floats:
                msg = f"{name} is placed as a partial sum; only float operands of programs can be"
                raise ValueError(msg)

    def _check_layers(self) -> None:
        """`ValueError` if a layer refers to another mesh.

        On one device layers keep the mesh they were made for, which nothing then uses.
        """
        for path, layer in walk(self.model.layers):
            if reason := layer.disagreement(self.layout, self.part_rows):
                msg = f"layer {path} {reason}"
                raise ValueError(msg)

    def _check_stages(self) -> None:
        """`ValueError` if the ranks cannot have the stages of the pipeline.

        On one device there is none, and the case keeps it, which nothing then uses.
        """
        if not (pipeline := self.staged):
            return
        ranks = dict(self.layout.mesh.axes).get(AXIS)
        reason = (
            pipeline.refusal(len(self.model.layers), ranks)
            if ranks
            else f"its mesh {self.layout.mesh} has no axis {AXIS}"
        )
        if reason:
            msg = f"no such pipeline: {reason}"
            raise ValueError(msg)

    @property
    def id(self) -> str:
        """The case's name: 12 hexadecimal digits."""
        return hashlib.sha256(self.to_json()).hexdigest()[:ID_LENGTH]

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self.layout.mesh.world_size

    @property
    def loss_dtype(self) -> DType:
        """In which dtype the loss is computed: float32 at least."""
        return "float64" if self.dtype == "float64" else "float32"

    @property
    def part_rows(self) -> int:
        """The rows of one accumulation part, over all ranks."""
        return self.data.batch // self.training.accumulation

    def placements(self) -> Iterator[tuple[tuple[int, ...], Placements]]:
        """The shape and the placements of an accumulation part, rows by positions, and of every parameter."""
        yield (self.part_rows, self.model.sequence), self.layout.batch
        shapes = self.model.tensors()
        for name, placements in self.layout.parameters.items():
            yield shapes[name], placements

    def to_json(self) -> bytes:
        """The canonical JSON."""
        return msgspec.json.encode(self, order="sorted")

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """The case that `to_json` wrote; `UsageError` if the text is wrong or too new."""
        try:
            case = msgspec.json.decode(text, type=cls)
            for feature in case.training_features:
                feature.require_declared()
            for _, layer in walk(case.model.layers):
                layer.require_declared()
        except (msgspec.DecodeError, UsageError, RecursionError, UnicodeError) as error:
            raise unreadable.explained(text, error, SCHEMA) from error
        return case

    @property
    def sdpa_kernels(self) -> tuple[str, ...]:
        """Torch's names of the kernels to try, in order: `sdpa`, then the usual ones."""
        named = () if self.sdpa is msgspec.UNSET else (self.sdpa,)
        return tuple(dict.fromkeys(TORCH_KERNELS[name] for name in (*named, *USUAL_KERNELS)))

    @property
    def forms(self) -> Spelling:
        """`spelling`, or that of the workers where it is unset."""
        return Spelling() if self.spelling is msgspec.UNSET else self.spelling

    @property
    def training_features(self) -> tuple[Feature, ...]:
        """`features`, or none where they are unset."""
        return () if self.features is msgspec.UNSET else self.features

    @property
    def sharded_by(self) -> Sharding:
        """`sharding`, or torch's defaults where it is unset."""
        return Sharding() if self.sharding is msgspec.UNSET else self.sharding

    @property
    def cut_by(self) -> Regions:
        """`regions`, or none where they are unset."""
        return Regions() if self.regions is msgspec.UNSET else self.regions

    @property
    def dispatched_by(self) -> Dispatch:
        """`dispatch`, or the usual way where it is unset."""
        return Dispatch() if self.dispatch is msgspec.UNSET else self.dispatch

    @property
    def staged(self) -> Pipeline | None:
        """`pipeline`, or None where it is unset."""
        return None if self.pipeline is msgspec.UNSET else self.pipeline

    @property
    def wrapping(self) -> Mapping[str, Sharding | Regions | Dispatch]:
        """Options of wrappers by field: `fully_shard`'s, what tensor parallelism cuts, the way to experts."""
        return {"sharding": self.sharded_by, "regions": self.cut_by, "dispatch": self.dispatched_by}

    def changed(self, part: Literal["training", "data", "model", "layout"], **fields: Any) -> Self:  # noqa: ANN401
        """The same case with other values in fields of one of its parts."""
        return msgspec.structs.replace(self, **{part: msgspec.structs.replace(getattr(self, part), **fields)})

    def unsharded(self) -> Self:
        """The same case on one device: a mesh of one rank, everything replicated, and resharded over none."""
        parameters = {name: replicated(ALONE) for name in self.layout.parameters}
        layout = Layout(mesh=ALONE, batch=(Replicate(),), parameters=parameters)
        sharding, over = self.sharding, self.sharded_by.reshard_after_forward
        if sharding and isinstance(over, int) and not isinstance(over, bool):
            sharding = msgspec.structs.replace(sharding, reshard_after_forward=None)
        return msgspec.structs.replace(self, layout=layout, sharding=sharding)


def _within(what: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        msg = f"{what} is {value}; allowed: {least} to {most}"
        raise ValueError(msg)


def _check_dims(name: str, placements: tuple[object, ...], dims: int) -> None:
    for placement in placements:
        dim = getattr(placement, "dim", 0)
        if dim >= max(dims, 1):
            msg = f"{name} has {dims} dims; a placement shards dim {dim}"
            raise ValueError(msg)
