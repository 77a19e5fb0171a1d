"""What a reproducer's template needs of a case: numbers, flags, and pieces of Python."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Literal, TypeAlias

from difftest.cases.case import Case
from difftest.cases.feature import Spelled
from difftest.cases.layers import walk
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.redistribute import SPELLED, Redistribute
from difftest.cases.layers.routed_experts import RoutedExperts
from difftest.cases.layout import Placements, Replicate, Shard, replicated
from difftest.cases.options import ACTS, Replication
from difftest.cases.routed import shards_others
from difftest.cases.script_values import python
from difftest.judge.stage import Stage
from reports.reproducer import features, fsdp, literals, pipelines, spelling
from reports.reproducer.blocks import Written
from reports.reproducer.fault import Fault

Plan: TypeAlias = Mapping[str, tuple[str, bool | str, bool | str]]
"""The style of `parallelize_module` for each layer's path.

A style is (`columns`, `rows` or `whole`; whether the layer's input is local pieces; whether its output is).
"""

Gate: TypeAlias = Literal["graphs", "once", "none"]
"""What of replicas on XLA runs behind a compile gate: every graph, the only one, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a template needs of a case: every property is a number, a flag, or a piece of Python."""

    case: Case
    fault: Fault
    title: str
    plan: Plan
    plain: bool = False
    gate: Gate = "graphs"
    """What of replicas on XLA waits until rank 0 has compiled it."""

    blocks: Mapping[str, Written] = field(default_factory=dict)
    """The building blocks by their paths in the model."""

    moves: bool = False
    """Whether the backend's activations have placements that layers can change."""

    @property
    def literal(self) -> bool:
        """Whether the script lists the case's own numbers, because they are few."""
        return not self.plain and not self.extras and literals.few(self.case, self.fault.steps)

    @property
    def draws(self) -> bool:
        """Whether the script draws the case's own numbers, as difftest draws them."""
        return not self.plain and not self.literal

    @property
    def early(self) -> bool:
        """Whether the script ends before the loss: the wrong tensor is an output of the only forward pass.

        With the case's own numbers the whole step runs, as in the case.
        """
        return (
            self.plain
            and self.fault.wants_output
            and self.fault.steps == self.case.training.accumulation == 1
        )

    @property
    def backward(self) -> bool:
        """Whether the script needs gradients."""
        return not self.plain or self.fault.steps > 1 or self.fault.stage is not Stage.FORWARD

    @property
    def all_floats(self) -> bool:
        """Whether inputs, targets and extras are all floats."""
        return (
            not self.case.model.tokens and not self.case.model.segments and self.case.training.loss == "mse"
        )

    @property
    def dtype(self) -> str:
        """The dtype of weights and inputs."""
        return f"torch.{self.case.dtype}"

    @property
    def count(self) -> int:
        """The number of target values in the mean of the squared error."""
        model = self.case.model
        return self.case.data.batch * max(1, model.sequence) * model.outputs

    @property
    def model(self) -> str:
        """The module."""
        return spelling.sequential(self.case, self.blocks, moves=bool(self.doors))

    @property
    def doors(self) -> tuple[tuple[str, str], ...]:
        """How layers move activations: (function, name of its class); empty without placements to move."""
        walked = walk(self.case.model.layers) if self.moves else ()
        return tuple(
            sorted({(layer.by, SPELLED[layer.by]) for _, layer in walked if isinstance(layer, Redistribute)})
        )

    @property
    def flash(self) -> FlashAttention:
        """The model's flash attention, of which all are equal; only where `has("FlashAttention")`."""
        return next(iter(self.case.model.flash_attentions.values()))

    @property
    def collective(self) -> Collective:
        """The model's only collective; only where `has("Collective")`."""
        return next(layer for _, layer in walk(self.case.model.layers) if isinstance(layer, Collective))

    def placed_at(self, name: str) -> str:
        """The placements of the parameter whose name is in the variable `name`."""
        whole = spelling.placements(replicated(self.case.layout.mesh))
        return f"PLACEMENTS.get({name}, {whole})" if self.sharded else whole

    @property
    def ties(self) -> tuple[tuple[str, str], ...]:
        """Tied weights as (that of a layer, that of the embedding), both as what follows `model`."""
        walked = [path for path, layer in walk(self.case.model.layers) if layer.borrows()]
        return tuple((f"{spelling.index(path)}.weight", "[0].weight") for path in walked)

    @property
    def ties_again(self) -> tuple[tuple[str, str], ...]:
        """The ties that the program makes again after placement."""
        return () if self.case.forms.tied_before else self.ties

    @property
    def layer_classes(self) -> tuple[str, ...]:
        """What layers need: the classes that their kinds declare for scripts, and those of blocks."""
        kinds = {layer.kind: layer for _, layer in walk(self.case.model.layers)}
        classes = [layer.SCRIPT_CLASS for _, layer in sorted(kinds.items()) if layer.SCRIPT_CLASS]
        written = [text for block in self.blocks.values() for text in (*block.imports, *block.definitions)]
        return tuple(dict.fromkeys([*classes, *written]))

    def has(self, kind: str) -> bool:
        """Whether any layer is of that class of `difftest.cases.layers`."""
        return any(type(layer).__name__ == kind for _, layer in walk(self.case.model.layers))

    def attention(self, flag: str) -> bool:
        """Whether any attention is `causal`, has `segments` or `groups`."""
        layers = [layer for _, layer in walk(self.case.model.layers) if isinstance(layer, Attention)]
        return any(
            layer.heads > layer.kv_heads if flag == "groups" else getattr(layer, flag) for layer in layers
        )

    def experts(self, part: str) -> bool:
        """Whether any experts have a `capacity`, a `shared` expert or a `router`."""
        layers = [layer for _, layer in walk(self.case.model.layers) if isinstance(layer, RoutedExperts)]
        return any(bool(getattr(layer, part)) for layer in layers)

    @property
    def shards_around_experts(self) -> bool:
        """Whether what is not an expert is sharded over `ep`."""
        return shards_others(self.case)

    @property
    def extras(self) -> bool:
        """Whether layers read tensors beside their input: segment ids, dropout masks."""
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
        """A numpy `array` as a tensor of the case's dtype; a twin's numbers are not rounded."""
        if self.case.dtype == "float64":
            return "torch.from_numpy(array)"
        through = "float16" if self.case.dtype == "float16" else "float32"
        half = ".bfloat16()" if self.case.dtype == "bfloat16" else ""
        return f'torch.from_numpy(array.astype("{through}")){half}'

    @property
    def optimizer(self) -> str:
        """The optimizer over `model.parameters()`."""
        return features.constructed(self.case)

    @property
    def features(self) -> Spelled:
        """What features of training add to the script."""
        return features.merged(self.case)

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

    def spec(self, name: str) -> str:
        """torch_xla's partition spec of a parameter."""
        shape = self.case.model.parameters()[name]
        return spelling.partition_spec(self.case, self.case.layout.parameters[name], len(shape))

    @property
    def spelled(self) -> ModuleType:
        """The functions of `reports.reproducer.spelling`."""
        return spelling

    @property
    def fsdp(self) -> ModuleType:
        """The functions of `reports.reproducer.fsdp`."""
        return fsdp

    @property
    def pipeline(self) -> ModuleType:
        """The functions of `reports.reproducer.pipelines`."""
        return pipelines

    @property
    def numbers(self) -> ModuleType:
        """The functions of `reports.reproducer.literals`."""
        return literals

    @property
    def replication(self) -> str:
        """The options of `DistributedDataParallel` that are not at their defaults, as further arguments."""
        chosen, usual = self.case.replication, Replication()
        names = [name for name in chosen.__struct_fields__ if name not in {"no_sync", "own_weights"}]
        options = [
            f", {name}={python(getattr(chosen, name))}"
            for name in names
            if getattr(chosen, name) != getattr(usual, name)
        ]
        return "".join([*options, *[", init_sync=False"] * self.case.forms.no_broadcast])

    @property
    def acts(self) -> tuple[str, ...]:
        """The acts of the program's start.

        In the usual order touching the device and seeding have no effect, and are left out.
        """
        return ("spmd", "mesh") if self.case.start.acts == ACTS else self.case.start.acts

    @property
    def copied_axes(self) -> tuple[str, ...]:
        """The mesh axes over which the tensor is replicated."""
        placed = zip(self.case.layout.mesh.axes, self.case.layout.parameters[self.fault.tensor], strict=True)
        return tuple(name for (name, size), at in placed if isinstance(at, Replicate) and size > 1)

    def expected_kind(self, local: bool, dtensors: bool) -> str:  # noqa: FBT001  for templates
        """The expected shape and dtype of the tensor, as a tuple; an updated DTensor has its placements too.

        `local`: an output holds one rank's rows, which the script counts. `dtensors`: parameters are such.
        """
        case = self.case
        shape = case.model.parameters().get(self.fault.tensor)
        if self.fault.wants_loss:
            return "((), torch.float32)"
        if shape is None:
            rows = case.part_rows
            lead = f"len(feed(torch.empty({rows})))" if local else str(rows)
            middle = f"{case.model.sequence}, " if case.model.sequence else ""
            return f"(({lead}, {middle}{case.model.outputs}), {self.dtype})"
        placements = (
            f", {spelling.placements(case.layout.parameters[self.fault.tensor])}"
            if dtensors and self.fault.wants_parameter
            else ""
        )
        return f"({python(shape)}, {self.dtype}{placements})"

    def standard_library(self, more: tuple[str, ...]) -> list[str]:
        """The modules that a script on XLA imports first."""
        return sorted([*([] if self.plain else ["hashlib"]), "io", "os", *more])

    def cut_dims(self, axis: str) -> Mapping[str, int]:
        """The parameters that `fully_shard` does not shard along dim 0, with their dim.

        None for an axis that the layout lacks.
        """
        names = self.case.layout.mesh.names
        if axis not in names:
            return {}
        over_axis = {name: at[names.index(axis)] for name, at in self.case.layout.parameters.items()}
        return {
            name: placement.dim
            for name, placement in over_axis.items()
            if isinstance(placement, Shard) and placement.dim
        }

    def keeps_whole(self, left_out: set[str]) -> bool:
        """Whether the plan leaves any layer whole."""
        return any(split == "whole" for path, (split, _, _) in self.plan.items() if path not in left_out)

    @property
    def only_replicates(self) -> bool:
        """Whether the only axis beside that of tensor parallelism replicates every parameter."""
        several = self.case.world_size > 1 and len(self.case.layout.mesh.names) == 2  # noqa: PLR2004
        return several and all(isinstance(at[0], Replicate) for at in self.case.layout.parameters.values())

    def renamed(self, axis: str) -> str:
        """The name of an axis in a mesh that has, beside it, an axis `dp_shard` of one rank."""
        return "dp_replicate" if axis == "dp_shard" else axis
