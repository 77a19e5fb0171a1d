"""What a reproducer's template asks of a case: numbers, flags, and pieces of Python."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TypeAlias

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.redistribute import SPELLED, Redistribute
from difftest.cases.layout import Placements, Replicate, Shard, replicated
from difftest.cases.options import ACTS, Replication
from difftest.judge.checks import ScriptKind
from difftest.judge.stage import Stage
from reports.reproducer import literals, spelling

Plan: TypeAlias = Mapping[str, tuple[str, bool, bool]]
"""The style of `parallelize_module` for every layer's path: split by `columns`, `rows` or `whole`; takes, and gives, local pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a script must show.

    Of a tensor: `tensor` at `stage` of `step`, and for `numbers` the `tolerance`, the least error that shows the fault, in the tensor's
    units. Of a failure: `failure` is the exception's type, the signal's name or `exit status N`, and `needle` a piece of its message
    without numbers, empty where it has none.
    """

    kind: ScriptKind
    stage: Stage
    step: int
    tensor: str = ""
    tolerance: float = 0.0
    failure: str = ""
    needle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a template asks of a case: every property is a number, a flag, or a piece of Python."""

    case: Case
    fault: Fault
    title: str
    plan: Plan
    plain: bool = False
    moves: bool = False
    """Whether the backend's activations have placements that layers can change."""

    @property
    def fails(self) -> bool:
        """Whether the fault is a run that does not finish."""
        return self.fault.kind in ("raises", "crash", "hang")

    @property
    def compares(self) -> bool:
        """Whether the fault shows beside the float64 run."""
        return self.fault.kind == "numbers"

    @property
    def steps(self) -> int:
        """How many steps it takes to get there."""
        return self.fault.step + 1

    @property
    def updates(self) -> bool:
        """Whether the optimizer is needed."""
        return self.steps > 1 or self.fault.stage is Stage.UPDATE

    @property
    def literal(self) -> bool:
        """Whether the case's own numbers are so few that they are written down."""
        return not self.plain and not self.extras and literals.few(self.case, self.steps)

    @property
    def draws(self) -> bool:
        """Whether the case's own numbers are drawn as the service draws them."""
        return not self.plain and not self.literal

    @property
    def early(self) -> bool:
        """Whether the tensor is there before any loss; with the case's own numbers the whole step runs, as in the case."""
        return self.plain and self.wants_output and self.steps == self.case.training.accumulation == 1

    @property
    def backward(self) -> bool:
        """Whether gradients are needed."""
        return not self.plain or self.steps > 1 or self.fault.stage is not Stage.FORWARD

    @property
    def all_floats(self) -> bool:
        """Whether everything fed is a float."""
        return (
            not self.case.model.tokens and not self.case.model.segments and self.case.training.loss == "mse"
        )

    @property
    def dtype(self) -> str:
        """The type of weights and inputs."""
        return f"torch.{self.case.dtype}"

    @property
    def count(self) -> int:
        """How many target values the squared error is the mean of."""
        model = self.case.model
        return self.case.data.batch * max(1, model.sequence) * model.outputs

    @property
    def wants_loss(self) -> bool:
        """Whether the tensor is the loss."""
        return not self.fails and self.fault.stage is Stage.FORWARD and self.fault.tensor == "loss"

    @property
    def wants_output(self) -> bool:
        """Whether the tensor is an output."""
        return not self.fails and self.fault.stage is Stage.FORWARD and self.fault.tensor != "loss"

    @property
    def wants_gradient(self) -> bool:
        """Whether the tensor is a gradient."""
        return not self.fails and self.fault.stage is Stage.BACKWARD

    @property
    def wants_parameter(self) -> bool:
        """Whether the tensor is an updated parameter."""
        return not self.fails and self.fault.stage is Stage.UPDATE

    @property
    def part(self) -> int:
        """The accumulation part whose output is wanted, counted from 0."""
        _, _, number = self.fault.tensor.partition(".")
        return int(number) if self.fault.stage is Stage.FORWARD and number else 0

    @property
    def model(self) -> str:
        """The module."""
        return spelling.sequential(self.case, moves=bool(self.doors))

    @property
    def doors(self) -> tuple[tuple[str, str], ...]:
        """How activations change their placements, on a backend whose activations have any: the function, and the class around it."""
        walked = walk(self.case.model.layers) if self.moves else ()
        return tuple(
            sorted({(layer.by, SPELLED[layer.by]) for _, layer in walked if isinstance(layer, Redistribute)})
        )

    @property
    def flash(self) -> FlashAttention:
        """The model's flash attention, all of which are alike; only where `has("FlashAttention")`."""
        return next(iter(self.case.model.flash_attentions.values()))

    @property
    def collective(self) -> Collective:
        """The model's collective, which it has one of; only where `has("Collective")`."""
        return next(layer for _, layer in walk(self.case.model.layers) if isinstance(layer, Collective))

    def placed_at(self, name: str) -> str:
        """The placements of the parameter whose name is in the variable `name`."""
        whole = spelling.placements(replicated(self.case.layout.mesh))
        return f"PLACEMENTS.get({name}, {whole})" if self.sharded else whole

    def batch_of(self, tensor: str) -> str:
        """The partition spec of what is fed, which is in the variable `tensor`."""
        spec = spelling.batch_spec(self.case)
        return f"(*{spec}, *[None] * {tensor}.dim())[: {tensor}.dim()]"

    @property
    def ties(self) -> tuple[tuple[str, str], ...]:
        """Tied layers as (layer, embedding) indexed from `model`."""
        walked = walk(self.case.model.layers)
        return tuple((spelling.index(path), "[0]") for path, layer in walked if layer.borrows())

    def has(self, kind: str) -> bool:
        """Whether any layer is of that class of `difftest.cases.layers`."""
        return any(type(layer).__name__ == kind for _, layer in walk(self.case.model.layers))

    def attention(self, flag: str) -> bool:
        """Whether any attention is `causal`, has `segments` or `groups`."""
        found = [layer for _, layer in walk(self.case.model.layers) if isinstance(layer, Attention)]
        return any(
            layer.heads > layer.kv_heads if flag == "groups" else getattr(layer, flag) for layer in found
        )

    @property
    def extras(self) -> bool:
        """Whether layers read what is fed beside the inputs."""
        return self.case.model.segments or bool(self.case.model.masked)

    @property
    def vectors(self) -> bool:
        """Whether any parameter has one dim."""
        return any(len(shape) == 1 for shape in self.case.model.parameters().values())

    @property
    def lead(self) -> str:
        """The dims before the last, as the inside of a tuple."""
        model = self.case.model
        return f"{self.case.data.batch}, {model.sequence}" if model.sequence else f"{self.case.data.batch},"

    def shape(self, width: int) -> str:
        """The shape of activations of `width`."""
        return f"({self.lead.rstrip(',')}, {width})"

    @property
    def rounded(self) -> str:
        """A numpy `array` as a tensor of the case's dtype."""
        through = "float16" if self.case.dtype == "float16" else "float32"
        half = ".bfloat16()" if self.case.dtype == "bfloat16" else ""
        return f'torch.from_numpy(array.astype("{through}")){half}'

    @property
    def optimizer(self) -> str:
        """The optimizer over `model.parameters()`."""
        return spelling.optimizer(self.case.training)

    @property
    def sharded(self) -> Mapping[str, Placements]:
        """The parameters that some axis shards."""
        return {name: at for name, at in self.case.layout.parameters.items() if spelling.is_sharded(at)}

    @property
    def sharded_placements(self) -> str:
        """The placements of the parameters that some axis shards, as a dict."""
        return spelling.table({name: spelling.placements(at) for name, at in self.sharded.items()})

    @property
    def sharded_specs(self) -> str:
        """The partition specs of the parameters that some axis shards, as a dict."""
        return spelling.table({name: self.spec(name) for name in self.sharded})

    def placements(self, at: Placements) -> str:
        """DTensor's placements."""
        return spelling.placements(at)

    def spec(self, name: str) -> str:
        """torch_xla's partition spec of a parameter."""
        shape = self.case.model.parameters()[name]
        return spelling.partition_spec(self.case, self.case.layout.parameters[name], len(shape))

    @property
    def spelled(self) -> ModuleType:
        """The functions of `reports.reproducer.spelling`."""
        return spelling

    @property
    def numbers(self) -> ModuleType:
        """The functions of `reports.reproducer.literals`."""
        return literals

    @property
    def replication(self) -> str:
        """The options of `DistributedDataParallel` that are not at their defaults, as further arguments."""
        chosen, usual = self.case.replication, Replication()
        names = [name for name in chosen.__struct_fields__ if name not in {"no_sync", "own_weights"}]
        return "".join(
            f", {name}={getattr(chosen, name)!r}"
            for name in names
            if getattr(chosen, name) != getattr(usual, name)
        )

    @property
    def acts(self) -> tuple[str, ...]:
        """How the program starts; in the usual order touching the device and seeding change nothing and are left out."""
        return ("spmd", "mesh") if self.case.start.acts == ACTS else self.case.start.acts

    @property
    def copied_axes(self) -> tuple[str, ...]:
        """The mesh axes over which the tensor is replicated."""
        at = self.case.layout.parameters[self.fault.tensor]
        return tuple(
            n
            for (n, size), p in zip(self.case.layout.mesh.axes, at, strict=True)
            if isinstance(p, Replicate) and size > 1
        )

    def expected_kind(self, local: bool, dtensors: bool) -> str:  # noqa: FBT001  a template has no keywords to spare
        """Shape and dtype that the tensor must have; of an updated parameter that is a DTensor, its placements too.

        `local`: outputs are one rank's rows, and `rows` says how many.
        """
        case = self.case
        shape = case.model.parameters().get(self.fault.tensor)
        if self.wants_loss:
            return "((), torch.float32)"
        if shape is None:
            rows = case.part_rows
            lead = f"len(feed(torch.empty({rows})))" if local else str(rows)
            middle = f"{case.model.sequence}, " if case.model.sequence else ""
            return f"(({lead}, {middle}{case.model.outputs}), {self.dtype})"
        placements = (
            f", {spelling.placements(case.layout.parameters[self.fault.tensor])}"
            if dtensors and self.wants_parameter
            else ""
        )
        return f"({shape!r}, {self.dtype}{placements})"

    @property
    def death(self) -> str:
        """Whether the `failure` of a rank is that of the run."""
        name = self.fault.failure
        return (
            f"failure.exit_code == {name.split()[-1]}"
            if name.startswith("exit status")
            else f"failure.signal_name == {name!r}"
        )

    @property
    def status(self) -> str:
        """Whether the child process that is `finished` ended as the run did."""
        name = self.fault.failure
        return (
            f"finished.returncode == {name.split()[-1]}"
            if name.startswith("exit status")
            else f"finished.returncode == -signal.{name}"
        )

    def standard_library(self, more: tuple[str, ...]) -> list[str]:
        """The modules that a script on XLA imports first."""
        own = ([] if self.plain else ["hashlib"]) + ["os", "sys", *more]
        dies = ["subprocess"] if self.fault.kind in ("crash", "hang") else []
        signals = (
            ["signal"]
            if self.fault.kind == "crash" and not self.fault.failure.startswith("exit status")
            else []
        )
        return sorted([*own, *dies, *signals])

    def cut_dims(self, axis: str) -> Mapping[str, int]:
        """The parameters that `fully_shard` cuts along another dim than the first; none for an axis that the layout does not know."""
        names = self.case.layout.mesh.names
        if axis not in names:
            return {}
        found = {name: at[names.index(axis)] for name, at in self.case.layout.parameters.items()}
        return {
            name: placement.dim
            for name, placement in found.items()
            if isinstance(placement, Shard) and placement.dim
        }

    def keeps_whole(self, left_out: set[str]) -> bool:
        """Whether the plan leaves any layer whole."""
        return any(split == "whole" for path, (split, _, _) in self.plan.items() if path not in left_out)

    @property
    def only_replicates(self) -> bool:
        """Whether there is one axis beside that of tensor parallelism, and every parameter is replicated over it."""
        several = self.case.world_size > 1 and len(self.case.layout.mesh.names) == 2  # noqa: PLR2004
        return several and all(isinstance(at[0], Replicate) for at in self.case.layout.parameters.values())

    def renamed(self, axis: str) -> str:
        """The name of an axis in a mesh that has an axis `dp_shard` of one rank beside it."""
        return "dp_replicate" if axis == "dp_shard" else axis
