"""Why a whole group of backends cannot run a case."""

from collections.abc import Callable
from functools import wraps
from typing import TypeAlias

from difftest.cases.case import Case
from difftest.cases.feature import declared
from difftest.cases.layers import walk
from difftest.cases.layout import has_shares

Unsupported: TypeAlias = Callable[[Case], str | None]
"""A backend's `unsupported`: why it cannot express a case, or None."""


def for_modules_only(unsupported: Unsupported) -> Unsupported:
    """The same for a backend that takes a module whose input is the batch: it refuses programs first.

    A program's operators take tensors of their own.
    """

    @wraps(unsupported)
    def refusal(case: Case) -> str | None:
        if case.model.is_program:
            return "needs a module that takes the batch; the case is a program of operators"
        return stages(case) or unsupported(case)

    return refusal


def stages(case: Case) -> str | None:
    """Why a backend that gives every rank the whole model cannot run the case, or None."""
    if case.staged and case.world_size > 1:
        return "gives every rank all layers; the case cuts the model into the stages of a pipeline"
    return None


def partial_sums(case: Case) -> str | None:
    """Why annotations cannot express the layout, or None."""
    if any(has_shares(placements) for placements in case.layout.parameters.values()):
        return "an annotation cuts a tensor or repeats it; the layout has a partial sum"
    return stages(case) or own_batches(case)


def own_batches(case: Case) -> str | None:
    """Why a backend that computes with the whole batch cannot run the case, or None."""
    if case.model.own and case.model.own.by_rank and case.layout.data_ranks > 1:
        return "computes with the whole batch; in this case every rank's rows are a batch of their own"
    if of := [one.name for one in case.training_features if declared(one.name).OF_REPLICAS]:
        return f"computes with the whole batch; the feature {of[0]} is what replicas do"
    return None


def reading(case: Case) -> str | None:
    """Why a backend that cannot read values within a step cannot run the case, or None."""
    if not (case.model.own and case.model.own.reads):
        return None
    names = ", ".join(case.model.own.reads)
    return f"cannot read values on the host within a step, as the model does ({names})"


def mixed_rows(case: Case) -> str | None:
    """Why ranks that compute with rows of their own compute something else than one device, or None."""
    mixing = any(layer.mixes_rows for _, layer in walk(case.model.layers))
    if mixing and case.layout.data_ranks > 1:
        return (
            "every rank has rows of its own; in this model rows influence each other (batch normalization?)"
        )
    return None
