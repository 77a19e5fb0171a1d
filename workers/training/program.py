"""The run of a program: its operators forward, the loss of drawn cotangents backward, and every value read.

Everything is read after the last operator has run. A result or an operand that a later operator changes
through an alias must show it.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from msgspec import structs
from torch import Tensor, nn

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.layout import replicated
from difftest.cases.options import Spelling
from difftest.judge.events import Fact
from difftest.judge.outcome import Sharded, Trace
from difftest.judge.stage import Stage
from workers.training.build import held
from workers.training.dtypes import NUMBERS, Dtypes, default_dtype
from workers.training.elsewhere import operators_elsewhere
from workers.training.session import Session, StageReport

Results = dict[tuple[Stage, str], Sharded]


def run(case: Case, session: Session, module: nn.Module, report: StageReport) -> Trace:
    """Runs the placed program once and returns the trace: the pieces that this process held."""
    program = _Program(case, session, module, report)
    tensors = program.forward()
    results = {
        name: _as_tensor(value, session) for name, value in tensors.items() if name.split(".")[1] == "output"
    }
    facts = {
        name: Fact(str(tensor.dtype).removeprefix("torch."), tensor.requires_grad)
        for name, tensor in results.items()
    }
    read, elsewhere = program.backward(results)
    read |= program.updated(tensors)
    session.sync()
    events = structs.replace(session.events(), device=session.device, elsewhere=dict(elsewhere), facts=facts)
    environment = {**session.environment, "numbers": numbers.digest(case)}
    return Trace(steps=(read,), environment=environment, events=events)


@dataclass(frozen=True, slots=True)
class _Program:
    """A placed program in its run."""

    case: Case
    session: Session
    module: nn.Module
    report: StageReport

    @property
    def writes(self) -> bool:
        """Whether any operator writes into a tensor that it is given."""
        return any(layer.writes for layer in self.case.model.operators.values())

    def forward(self) -> Mapping[str, Any]:
        """Every operand and every result by full name."""
        names = [layer.operator for layer in self.case.model.operators.values()]

        def begins(index: int) -> None:
            self.report(Stage.FORWARD, 0, names[index])

        dtypes = Dtypes(self.session.dtype, self.session.wide)
        forms = self.case.forms if self.session.spelled else Spelling()
        mode = torch.inference_mode if forms.inference else nullcontext
        with default_dtype(dtypes.default), self.session.observe("forward", self.module), mode():
            tensors: Mapping[str, Any] = self.module(begins, copied=self.writes)
        return tensors

    def backward(self, results: Mapping[str, Tensor]) -> tuple[Results, Counter[str]]:
        """The results, the loss and the gradients; and the operators whose results were elsewhere."""
        layout, only = self.case.layout, self._only_operator()
        everywhere = replicated(layout.mesh)
        used = [(name, tensor) for name, tensor in results.items() if tensor.requires_grad]
        if self.case.training.loss == "first_cotangent":
            used = used[:1]
        losses = [self._loss(name, tensor) for name, tensor in used]
        read = {(Stage.FORWARD, name): self._read(tensor, everywhere) for name, tensor in results.items()}
        if losses:
            total = sum(self.session.total(loss.detach()) for loss in losses)
            assert isinstance(total, Tensor)  # noqa: S101  there are losses
            read[Stage.FORWARD, "loss"] = self._read(total, everywhere)
            self.report(Stage.BACKWARD, 0, only)
            with self.session.observe("backward", self.module):
                torch.autograd.backward(losses)
        elsewhere = sum((operators_elsewhere(loss, self.session.device) for loss in losses), Counter[str]())
        self.session.sync()
        for name, parameter in self.module.named_parameters():
            if parameter.grad is not None:
                read[Stage.BACKWARD, name] = self._read(parameter.grad, layout.parameters[name])
        return read, elsewhere

    def updated(self, tensors: Mapping[str, Any]) -> Results:
        """Every operand's value after the run.

        Where operators write, it is that of the copy that they were given; an expanded tensor cannot be
        written to. Where nothing says its placements any more, every rank's piece is the whole tensor.
        """
        layout = self.case.layout
        everywhere = replicated(layout.mesh)
        self.report(Stage.UPDATE, 0, self._only_operator())
        read: Results = {}
        for path, layer in self.case.model.operators.items():
            for own, operand in layer.operands.items():
                name = f"{path}.{own}"
                copied = self.writes and operand.memory != "expanded"
                tensor = tensors[name] if copied else held(self.module, name)
                placements = layout.placements_of(name, operand.shape, tensor.shape) or everywhere
                read[Stage.UPDATE, name] = self._read(tensor, placements)
        return read

    def _loss(self, name: str, tensor: Tensor) -> Tensor:
        """The sum of one result times its cotangent, in float32, or float64 where the result is."""
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        drawn = torch.from_numpy(numbers.cotangent(self.case, name, tuple(tensor.shape)))
        tensor = tensor if tensor.dtype == torch.float64 else tensor.float()
        cotangent = drawn.to(tensor.dtype)
        fed = self.session.feed(cotangent)
        if type(tensor) is Tensor and type(fed) is not Tensor:  # a backend's operator may give a plain tensor
            fed = cotangent.to(tensor.device)
        return (tensor * fed).sum()

    def _read(self, tensor: Tensor, placements: Any) -> Sharded:  # noqa: ANN401
        return self.session.read(tensor.detach(), placements)

    def _only_operator(self) -> str:
        """The name of the program's operator if it has one alone: what fails later is then that one's."""
        names = [layer.operator for layer in self.case.model.operators.values()]
        return names[0] if len(names) == 1 else ""


def _as_tensor(value: Any, session: Session) -> Tensor:  # noqa: ANN401  a tensor or a number
    if isinstance(value, Tensor):
        return value
    return torch.tensor(value, dtype=NUMBERS[type(value)], device=session.device)
