"""Calling an operator on the CPU from its data alone, with the values and the module of a campaign."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from difftest.cases import operands
from difftest.cases.case import DType, Regime
from difftest.cases.layers.operator import Operator
from difftest.cases.layout import Mesh
from difftest.cases.options import Spelling
from generators.operators.programs import program
from tools.operators.isolate import Journal
from workers.training.dtypes import NUMBERS, Dtypes, default_dtype
from workers.training.layers import Plan, module_of
from workers.training.operators import Operators

if TYPE_CHECKING:
    from workers.training.layers.operator import Operator as Module

ONE_RANK = Mesh((("dp", 1),))

JOURNAL = ContextVar("JOURNAL", default=Journal())  # noqa: B039  it is frozen
"""What every call is reported to before it begins."""


@dataclass(frozen=True)
class Run:
    """The results by name, the operands' values before and after, and the operands that require gradients."""

    results: Mapping[str, Tensor]
    before: Mapping[str, Tensor]
    after: Mapping[str, Tensor]
    leaves: Mapping[str, Tensor]


def run(
    operator: Operator, draw: int, dtype: DType = "float32", *, regime: Regime = "normal", wide: bool = False
) -> Run:
    """Calls `operator` with the values of the seed `draw`; whatever torch raises, it raises.

    `wide`: in float64, as the oracle. `TypeError` for a result that is neither tensor nor number, and
    `LethalError` for a call that has ended a process.
    """
    case = program(
        [operator], path="operators", mesh=ONE_RANK, placements={}, dtype=dtype, regime=regime, seed=draw
    )
    JOURNAL.get().begin(case.id)
    dtypes = Dtypes(torch.float64 if wide else getattr(torch, dtype), wide)
    plan = Plan(sequence=0, operators=Operators(), dtypes=dtypes, checkpointing=False, spelling=Spelling())
    module = cast("Module", module_of(operator, "0", plan))
    held = dict((*module.named_parameters(), *module.named_buffers()))
    with torch.no_grad():
        for name, values in operands.all_values(case).items():
            held[name.removeprefix("0.")].copy_(torch.from_numpy(values))
    before = {name: one.detach().clone() for name, one in held.items()}
    with default_dtype(dtypes.default):
        tensors = module.operands(copied=operator.writes)
        results = module(tensors)
    if not results:
        msg = "the result is no tensor"
        raise TypeError(msg)
    return Run({name.removeprefix("0."): _tensor(one) for name, one in results.items()}, before, held, held)


def gradients(done: Run) -> dict[str, Tensor]:
    """The gradients of the sum of all results that require one, by operand."""
    wanted = {name: one for name, one in done.leaves.items() if one.requires_grad}
    differentiable = [one for one in done.results.values() if one.requires_grad]
    losses = [(torch.view_as_real(one) if one.is_complex() else one).float().sum() for one in differentiable]
    if not losses or not wanted:
        return {}
    computed = torch.autograd.grad(torch.stack(losses).sum(), list(wanted.values()), allow_unused=True)
    return {name: one for name, one in zip(wanted, computed, strict=True) if one is not None}


def _tensor(value: Any) -> Tensor:  # noqa: ANN401  a tensor or a number
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=NUMBERS[type(value)])
