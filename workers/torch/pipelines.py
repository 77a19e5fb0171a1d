"""A model in the stages of `torch.distributed.pipelining`: a rank's layers, and a schedule over all of them.

Stages live on different ranks, so what a rank holds is shared over the pipeline once it is read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
from torch import Tensor, distributed, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.microbatch import TensorChunkSpec
from torch.distributed.pipelining.schedules import get_schedule_class
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from difftest.cases.pipelining import AXIS, SINGLE, Pipeline
from difftest.judge.outcome import Sharded
from workers.torch.process_groups import Member, dtype_of
from workers.training.modules import Adjusted
from workers.training.pieces import full

if TYPE_CHECKING:
    from workers.training.session import Loss

Wrap: TypeAlias = Callable[["StageModule"], nn.Module]
"""From the module of a stage to the one that data or tensor parallelism makes of it."""

HALF, NAME = 0.5, "output"

BESIDE = ("factors", "offsets")
"""What stages may be given by keyword, in this order."""


class StageModule(Adjusted):
    """The layers of one stage, with the names that they have in the model."""

    def __init__(
        self, layers: Mapping[str, nn.Module], pipeline: Pipeline, *, first: bool, last: bool
    ) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.hands, self.rows_second = pipeline.hands, pipeline.rows_second
        self.first, self.last = first, last

    def forward(self, *inputs: Tensor, beside: Any = ()) -> Any:  # type: ignore[override]  # noqa: ANN401  a tensor, or two
        """What the stage before gave, or the inputs; and what the next one is given."""
        whole = inputs[0] if self.first else self._joined(*inputs)
        whole = turned(whole) if self.rows_second else whole
        extras = dict(zip(BESIDE, (beside,) if isinstance(beside, Tensor) else beside, strict=False))
        if self.hands == "learned" and not self.last and (bias := self._bias()) is not None:
            *_, linear = self.children()
            with _without(linear, bias):
                output = super().forward(whole, extras)
            return output, bias.expand_as(output).contiguous()
        return self._handed(super().forward(whole, extras), whole)

    def _joined(self, *inputs: Tensor) -> Tensor:
        """The value that the stage before gave."""
        match self.hands:
            case "two" | "learned":
                return inputs[0] + inputs[1]
            case "passed_on":  # used, so that it has a gradient, which is 0
                return inputs[0] + inputs[1].flatten()[:0].sum()
            case "named":
                return cast("Mapping[str, Tensor]", inputs[0])[NAME]
        return inputs[0]

    def _handed(self, output: Tensor, whole: Tensor) -> Any:  # noqa: ANN401  a tensor, or two
        match "tensor" if self.last and self.hands != "view" else self.hands:
            case "tensor":
                return turned(output) if self.rows_second else output
            case "view":
                return output.unsqueeze(0).squeeze(0)
            case "strided":
                return output.transpose(0, -1).contiguous().transpose(0, -1)
            case "two" | "learned":
                return output * HALF, output * HALF
            case "named":
                return {NAME: output}
        return output, self._beside(output, whole)

    def _beside(self, output: Tensor, whole: Tensor) -> Tensor:
        """The second tensor of those that have one beside the whole value."""
        match self.hands:
            case "unused":
                return output.square()
            case "integers":
                return torch.arange(len(output), device=output.device)
        return whole

    def _bias(self) -> nn.Parameter | None:
        """That of a Linear layer with which the stage ends, if it is trained and a rank has it whole."""
        *_, last = self.children()
        bias = last.bias if isinstance(last, nn.Linear) else None
        return bias if type(bias) is nn.Parameter and bias.requires_grad else None


def turned(tensor: Tensor) -> Tensor:
    """The first two dims swapped, so that the tensor and its gradient have no strides of their own."""
    return torch.stack(tensor.unbind(1))


@contextmanager
def _without(linear: nn.Module, bias: nn.Parameter) -> Iterator[None]:
    """A Linear layer that adds no bias."""
    linear.register_parameter("bias", None)
    try:
        yield
    finally:
        linear.register_parameter("bias", bias)


class Stages(nn.Module):
    """The layers of all stages of a rank, with the names that they have in the model."""

    def __init__(self, modules: Sequence[StageModule]) -> None:
        super().__init__()
        for stage in modules:
            for name, layer in stage.named_children():
                self.add_module(name, layer)


@dataclass(slots=True)
class RankPipeline:
    """One rank's part of a pipeline. `loss` is that of the step that runs."""

    member: Member
    pipeline: Pipeline
    wrap: Wrap
    scale: float
    own: list[int] = field(default_factory=list)
    schedule: Any = None
    loss: "Loss | None" = None
    begun: bool = False

    @property
    def group(self) -> "distributed.ProcessGroup":
        """The ranks that have the stages."""
        return self.member.mesh.get_group(AXIS)

    def place(self, module: nn.Module) -> nn.Module:
        """The layers of this rank's stages, on its device, wrapped; makes the schedule."""
        ranks, at = self.group.size(), self.group.rank()
        layers = self.pipeline.layers(len(self.member.case.model.layers))
        self.own = [i for i in range(len(layers)) if self.pipeline.rank_of(i, ranks) == at]
        modules = [
            StageModule(
                {str(layer): module.get_submodule(str(layer)) for layer in layers[index]},
                self.pipeline,
                first=index == 0,
                last=index == len(layers) - 1,
            ).to(self.member.device)
            for index in self.own
        ]
        wrapped = [self.wrap(stage) for stage in modules]
        stages = [
            PipelineStage(stage, index, len(layers), self.member.device, group=self.group)
            for index, stage in zip(self.own, wrapped, strict=True)
        ]
        self.schedule = get_schedule_class(self.pipeline.schedule)(
            stages[0] if self.pipeline.schedule in SINGLE else stages,
            n_microbatches=self.pipeline.microbatches,
            loss_fn=self._loss,
            scale_grads=self.pipeline.scaled,
            **self._cut(),
        )
        return Stages(modules)

    def _cut(self) -> Mapping[str, Any]:
        """How the schedule cuts inputs, where a rank has some, and joins outputs, if not along dim 0."""
        second = TensorChunkSpec(1)
        cut = {"output_merge_spec": second, **({"args_chunk_spec": (second,)} if 0 in self.own else {})}
        return cut if self.pipeline.rows_second else {}

    def _loss(self, output: Tensor, targets: Tensor) -> Tensor:
        """That of a microbatch, as large as the schedule's division of gradients makes necessary."""
        assert self.loss  # noqa: S101  `run` sets it
        if self.pipeline.rows_second:
            output, targets = output.flatten(0, 1), targets.flatten(0, 1)
        return self.loss(output, targets) * (self.scale * self._divisor)

    @property
    def _divisor(self) -> int:
        return self.pipeline.microbatches if self.pipeline.scaled else 1

    def run(
        self, parts: Sequence[Sequence[Tensor]], loss: "Loss", total: Callable[[Tensor], Tensor]
    ) -> tuple[list[Tensor], Tensor]:
        """Forward and backward of each part's microbatches: the parts' outputs and the loss of all.

        `parts` have the inputs, the targets and what is beside them that this rank is fed.
        """
        self.loss, outputs, losses = loss, list[Tensor](), list[Tensor]()
        last = self.pipeline.stages - 1
        for given, wanted, *extras in parts:
            own, beside = list[Tensor](), self._beside(extras)
            inputs, targets = self._turned(given), self._turned(wanted)
            with self._handshake():
                self._evaluate(inputs, targets, beside)
                output = self.schedule.step(
                    *([inputs] if 0 in self.own else []),
                    target=targets if last in self.own else None,
                    losses=own,
                    **beside,
                )
            if last in self.own:
                outputs.append(self._turned(output.detach()))
                losses.append(torch.stack([one.detach() for one in own]).sum())
        there: list[Any] = [
            outputs,
            torch.stack(losses).sum() / (self.scale * self._divisor) if losses else None,
        ]
        source = distributed.get_global_rank(self.group, self.pipeline.rank_of(last, self.group.size()))
        distributed.broadcast_object_list(there, source, self.group)
        return there[0], total(there[1])

    def _turned(self, tensor: Tensor) -> Tensor:
        """Rows and sequence swapped, where the case has rows second."""
        return turned(tensor) if self.pipeline.rows_second else tensor

    def _beside(self, extras: Sequence[Tensor]) -> Mapping[str, Any]:
        """The keyword of every stage, if it has one, from tensors of all rows."""
        forms: Mapping[str, Callable[[], Any]] = {
            "rows": lambda: extras[0],
            "pair": lambda: tuple(extras),
            "one_row": lambda: extras[0][:1],
            "number": lambda: extras[0][0],
        }
        return {"beside": forms[self.pipeline.beside]()} if extras else {}

    def _evaluate(self, inputs: Tensor, targets: Tensor, beside: Mapping[str, Any]) -> None:
        """A part of the batch ahead of its step, where the case has it so."""
        if self.pipeline.evaluated == "first" or (self.pipeline.evaluated == "later" and self.begun):
            last = self.pipeline.stages - 1 in self.own
            fed = [inputs] if 0 in self.own else []
            self.schedule.eval(*fed, target=targets if last else None, losses=list[Tensor](), **beside)

    @contextmanager
    def _handshake(self) -> Iterator[None]:
        """Around the first step, tensors of torch's default dtype have 8 bytes.

        Stages first send each other their index, which torch 2.9 receives in one of the default dtype; gloo
        aborts where the sizes differ (`pipeline_handshake_over_gloo`).
        """
        usual = torch.get_default_dtype()
        if not self.begun:
            torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(usual)
        self.begun = True

    def shared(self, tensors: Mapping[Any, Sharded]) -> dict[Any, Sharded]:
        """What any rank of the pipeline holds, as if this one held it."""
        everything: list[Mapping[Any, Sharded]] = [{} for _ in range(self.group.size())]
        distributed.all_gather_object(everything, tensors, self.group)
        return {
            key: replace(one, pieces={self.member.rank: next(iter(one.pieces.values()))})
            for each in everything
            for key, one in each.items()
        }

    def clip(self, parameters: Iterator[nn.Parameter], norm: float) -> None:
        """By the norm of the gradients of all stages, as torchtitan does."""
        trained = list(parameters)
        total = full(get_total_norm([one.grad for one in trained if one.grad is not None]))
        total = total.to(
            self.member.device, dtype_of(self.member.case)
        )  # a float32 of the host without gradients
        squared = total**2
        distributed.all_reduce(squared, group=self.group)
        clip_grads_with_norm_(trained, norm, squared**HALF)
