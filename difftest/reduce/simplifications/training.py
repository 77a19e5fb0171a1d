"""Plainer training: one step of SGD on the squared error, in one part, in float32."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from difftest.cases.case import Case
from difftest.reduce.candidate import Candidate, Simplification, smaller, tried
from difftest.reduce.measure import OPTIMIZERS

ORDER = 2
FEW_STEPS = (1, 2, 4)
"""Optimizers with a state show it in the second step."""


def fewer_steps(case: Case) -> Iterator[Candidate]:
    """One step, two, or four: as many as it takes until graphs are stable or compiled again."""
    yield from smaller(
        f"{case.training.steps} steps",
        case.training.steps,
        FEW_STEPS,
        lambda steps: _trained(case, steps=steps),
    )


def plainer_optimizer(case: Case) -> Iterator[Candidate]:
    """SGD, or the next plainer optimizer."""
    rank = OPTIMIZERS.index(case.training.optimizer) if case.training.optimizer in OPTIMIZERS else 0
    for name in dict.fromkeys((OPTIMIZERS[0], OPTIMIZERS[rank - 1])) if rank else ():
        yield from tried(f"optimizer {case.training.optimizer}", partial(_trained, case, optimizer=name))


def fewer_parts(case: Case) -> Iterator[Candidate]:
    """The batch in one part, or in two."""
    parts = case.training.accumulation
    yield from smaller(f"accumulation {parts}", parts, (1, 2), partial(_in_parts, case))


def no_clipping(case: Case) -> Iterator[Candidate]:
    """Gradients of any norm."""
    if case.training.clip_norm is not None:
        yield from tried(f"clipping at {case.training.clip_norm:g}", partial(_trained, case, clip_norm=None))


def squared_error(case: Case) -> Iterator[Candidate]:
    """The loss that is simplest to write."""
    if case.training.loss != "mse" and not case.model.is_program and not case.model.own:
        fed = msgspec.structs.replace(case.data, ignored=0.0)
        yield from tried(f"loss {case.training.loss}", partial(_trained, case, fed=fed, loss="mse"))


def every_result(case: Case) -> Iterator[Candidate]:
    """A loss of all results of a program."""
    if case.training.loss == "first_cotangent":
        yield from tried("results that are not used", partial(_trained, case, loss="cotangent"))


def float32(case: Case) -> Iterator[Candidate]:
    """The dtype that every operator has."""
    if case.dtype != "float32":
        yield from tried(f"dtype {case.dtype}", lambda: msgspec.structs.replace(case, dtype="float32"))


def no_checkpointing(case: Case) -> Iterator[Candidate]:
    """Nothing computed twice."""
    if case.training.checkpointing:
        yield from tried("checkpointing", partial(_trained, case, checkpointing=False))


SIMPLIFICATIONS: tuple[Simplification, ...] = (
    fewer_steps,
    plainer_optimizer,
    no_clipping,
    fewer_parts,
    squared_error,
    every_result,
    float32,
    no_checkpointing,
)


def _trained(
    case: Case,
    fed: msgspec.Struct | None = None,
    **changes: Any,  # noqa: ANN401  fields of `Training`
) -> Case:
    training = msgspec.structs.replace(case.training, **changes)
    return msgspec.structs.replace(case, training=training, data=fed or case.data)


def _in_parts(case: Case, parts: int) -> Case:
    """With as many rows in a part as before, if the batch does not divide into the fewer parts."""
    rows = case.data.batch
    fitting = rows if rows % parts == 0 else rows // case.training.accumulation * parts
    return _trained(case, fed=msgspec.structs.replace(case.data, batch=fitting), accumulation=parts)
