"""What a backend gives to the training loop: how to place, feed, step and read back, as plain functions.

A `Session` lives inside one process and acts for the ranks of that process: one rank for DDP and its like,
all of them for XLA's single-controller SPMD.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.layout import Placements
from difftest.judge.events import Events
from difftest.judge.outcome import Sharded, Trace
from difftest.judge.stage import Stage
from workers.training.dispatched import Direction
from workers.training.features import OwnHooks
from workers.training.operators import Operators

Outputs: TypeAlias = Mapping[str, Tensor]
"""The output of a model under an empty name, and what else a module of the user's returns by its places."""

Forward: TypeAlias = Callable[..., tuple[Outputs, Tensor]]
"""From the tensors of one accumulation part to its outputs and its loss."""

Accumulate: TypeAlias = Callable[
    [nn.Module, Sequence[Sequence[Tensor]], Forward], tuple[list[Outputs], Tensor]
]
"""From the module, the parts' tensors and the forward function to the parts' outputs and the total loss."""

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""From an output and its targets to the loss."""

Staged: TypeAlias = Callable[[nn.Module, Sequence[Sequence[Tensor]], Loss], tuple[list[Tensor], Tensor]]
"""As `Accumulate`, given the loss alone: nobody has the whole model. A part is inputs, targets and extras."""


class StageReport(Protocol):
    """Called with each stage and its step as it begins, so that the parent knows where a process died."""

    def __call__(self, stage: Stage, step: int, operator: str = "") -> None:
        """`operator`: the one of a program that begins; empty where several may be running, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One backend, joined and ready.

    * `dtype`: the floating type of weights and inputs (the case's; float64 for the oracle).
    * `wide`: a program's tensors have float64 in place of every floating type (the oracle).
    * `place(module) -> module`: turns a module on the host into the one that is trained.
    * `feed(tensor) -> tensor`: turns a host tensor of the whole batch, or of a whole part of it, into what
      the placed module takes: this rank's rows, or a global sharded tensor.
    * `read(tensor, placements) -> Sharded`: the pieces that this process holds of a tensor expected at
      `placements`.
    * `scale`: the factor on a local loss that the backend's gradient averaging divides out again.
    * `total(loss) -> loss`: the global loss from this process's (scaled) share.
    * `apart`: the module is fed this rank's rows alone, and computes with no others.
    * `around()`: a context around every step.
    * `reads_values`: whether the program may read a tensor's values on the host within a step.
    * `sync()`: ends a part of the step (materialises lazy tensors).
    * `clip(parameters, norm)`: scales gradients so that their global norm is at most `norm`.
    * `after(stage, step, module, optimizer)`: called when gradients or updated parameters are complete,
      before they are read (planted faults use it).
    * `replay(train, session) -> trace`: runs the loop as often as needed and says what is kept (the oracle
      measures its noise by running it again).
    * `observe(direction, module)`: a context around every `forward` and `backward`, which records the
      operators that are dispatched inside.
    * `operators`: how the backend computes attention, communicates and moves tensors
      (`workers.training.operators`).
    * `quiet(module, last)`: a context around every backward; `last` is false for all but the last
      accumulation part.
    * `accumulate(module, parts, forward) -> (outputs, loss)`: forward and backward of all parts at once,
      where a framework has its own way of accumulating or of differentiating. A part is its tensors on the
      host; `forward` gives a part's outputs and loss.
    * `staged(module, parts, loss) -> (outputs, loss)`: the same where the module is this rank's stages of a
      pipeline.
    * `shared(tensors)`: what was read of the tensors that this rank holds, with those that other ranks of a
      pipeline hold.
    * `does`: the hooks of the features of training that the backend has by a means of its own.
    * `whole(output)`: the output of the module as it is read, where its classes are apart.
    * `loss(case, output, targets, count)`: the loss of such an output; None for the usual functions.
    * `spelled`: whether the program takes the forms of the case's spelling. The oracle takes none.
    * `device`: the type of the device that the placed module's tensors must be on, as the framework calls it.
    * `steps`: how many steps are trained; None for those of the case.
    * `environment`: what the numbers depend on (versions, device), which the trace records.
    * `events()`: what the run reports beside tensors.
    """

    dtype: torch.dtype
    place: Callable[[nn.Module], nn.Module]
    feed: Callable[[Tensor], Tensor]
    read: Callable[[Tensor, Placements], Sharded]
    device: str
    does: OwnHooks = field(default_factory=dict)
    whole: Callable[[Tensor], Tensor] = lambda output: output
    loss: Callable[[Case, Tensor, Tensor, int], Tensor] | None = None
    spelled: bool = True
    wide: bool = False
    scale: float = 1.0
    total: Callable[[Tensor], Tensor] = lambda loss: loss
    apart: bool = False
    sync: Callable[[], None] = lambda: None
    reads_values: bool = True
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    clip: Callable[[Iterator[nn.Parameter], float], object] = lambda parameters, norm: (
        torch.nn.utils.clip_grad_norm_(list(parameters), norm)
    )
    accumulate: Accumulate | None = None
    staged: Staged | None = None
    shared: Callable[[dict[tuple[Stage, str], Sharded]], dict[tuple[Stage, str], Sharded]] = lambda tensors: (
        tensors
    )
    quiet: Callable[[nn.Module, bool], AbstractContextManager[None]] = lambda _module, _last: nullcontext()
    observe: Callable[[Direction, nn.Module], AbstractContextManager[None]] = lambda *_: nullcontext()
    operators: Operators = field(default_factory=Operators)
    environment: dict[str, str] = field(default_factory=dict)
    replay: "Callable[[Callable[[Session], Trace], Session], Trace]" = lambda train, session: train(session)
    events: Callable[[], Events] = Events
    after: Callable[[Stage, int, nn.Module, torch.optim.Optimizer], None] = lambda *_: None
    steps: int | None = None
