"""Planted faults of what operators mean: dtypes, gradients, aliases, indices, dims, rejected arguments."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import torch
from msgspec import structs
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.layers.operator import Operator
from workers.faults import BACKEND, of_operators
from workers.training.program_hooks import (
    any_operator,
    floats_only,
    function,
    has_gradient,
    hooked,
    runs,
    with_operands,
    with_results,
)
from workers.training.session import Session

ARGUMENTS_OF_MAXIMA = frozenset({"argmax", "argmin", "argsort", "nonzero", "searchsorted", "sort", "topk"})
VIEWS = frozenset(
    {"view", "t", "transpose", "select", "narrow", "unsqueeze", "squeeze", "diagonal", "permute", "view_as"}
)
ADDING = {"index_add": "index_copy", "scatter_add": "scatter"}
"""Operators that add what has the same index, with those of the same arguments that overwrite it."""

WITH_INDEX = frozenset({"select"})
OVER_A_DIM = frozenset(
    {"sum", "mean", "amax", "amin", "softmax", "log_softmax", "cumsum", "prod", "var", "std"}
)


Edit: TypeAlias = Callable[[Operator], Operator]


def _edited(session: Session, edit: Edit) -> Session:
    """The session in which operators call what `edit` makes of their layers."""

    def install(module: Any) -> None:  # noqa: ANN401
        module.layer = edit(module.layer)

    return hooked(session, install, lambda _: True)


def _changed_by(edit: Edit) -> Callable[[Case], bool]:
    """Whether a program that runs has an operator that `edit` changes."""
    return lambda case: runs(case) and any_operator(case, lambda layer: edit(layer) != layer)


def _gives_indices(case: Case) -> bool:
    return runs(case) and any_operator(case, lambda layer: function(layer) in ARGUMENTS_OF_MAXIMA)


@of_operators(
    about="results of a half type are float32",
    blame=BACKEND,
    reaches=lambda case: case.dtype in {"bfloat16", "float16"} and runs(case),
)
def result_promoted(session: Session, _case: Case, _rank: int) -> Session:
    """The numbers are right."""
    return with_results(session, floats_only(lambda tensor: tensor.float()))


@of_operators(
    about="indices are int32 instead of int64",
    backends=("xla_spmd",),  # DTensor has no rule for operators that give indices
    blame=BACKEND,
    reaches=_gives_indices,
)
def indices_narrowed(session: Session, _case: Case, _rank: int) -> Session:
    """The numbers are right."""
    return with_results(
        session, lambda tensor: tensor.to(torch.int32) if tensor.dtype == torch.int64 else tensor
    )


@of_operators(
    about="indices of results are one too great",
    backends=("xla_spmd",),  # DTensor has no rule for operators that give indices
    blame=BACKEND,
    reaches=_gives_indices,
)
def result_index_shifted(session: Session, _case: Case, _rank: int) -> Session:
    """As if counted from 1."""
    return with_results(session, lambda tensor: tensor if tensor.is_floating_point() else tensor + 1)


@of_operators(about="a result does not require a gradient", blame=BACKEND, reaches=has_gradient)
def gradient_not_required(session: Session, _case: Case, _rank: int) -> Session:
    """As by a kernel that autograd does not follow."""
    return with_results(session, torch.Tensor.detach)


@of_operators(
    about="the gradient of an operand is lost",
    blame=BACKEND,
    reaches=lambda case: has_gradient(case) and _differentiable_operands(case) > 1,
)
def operand_gradient_lost(session: Session, _case: Case, _rank: int) -> Session:
    """That of the last operand of the first operator; the others have theirs."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        list(placed.parameters())[-1].requires_grad_(False)  # noqa: FBT003  torch's own
        return placed

    return replace(session, place=place)


def _differentiable_operands(case: Case) -> int:
    """The number of float operands if all of them require gradients, else 0."""
    floats = [
        operand
        for layer in case.model.operators.values()
        for operand in layer.operands.values()
        if operand.is_float
    ]
    return len(floats) if all(one.gradient for one in floats) else 0


def _writes(layer: Operator) -> bool:
    return layer.form == "inplace"


@of_operators(
    about="an in-place update is lost",
    blame=BACKEND,
    reaches=lambda case: runs(case) and any_operator(case, _writes),
)
def update_lost(session: Session, _case: Case, _rank: int) -> Session:
    """It is made to a copy; the result is right."""
    return with_operands(session, torch.Tensor.clone, _writes)


@of_operators(
    about="an operator that must not writes into its operand",
    blame=BACKEND,
    reaches=lambda case: runs(case) and not any_operator(case, lambda layer: layer.form != "function"),
)
def update_on_caller(session: Session, _case: Case, _rank: int) -> Session:
    """The result is right, and the first operand is doubled and one more."""

    def hook(module: Any, operands: tuple[Mapping[str, Any]], _results: Any) -> None:  # noqa: ANN401
        name = next(iter(module.layer.operands), None)
        operand = operands[0].get(f"{module.path}.{name}")
        if isinstance(operand, Tensor) and operand.dtype != torch.bool:
            # A DTensor keeps its numbers in its own piece. Autograd does not notice a change of `data`.
            local = getattr(operand, "_local_tensor", operand)
            local.data = local.detach() * 2 + 1

    return hooked(session, lambda module: module.register_forward_hook(hook), lambda _: True)


@of_operators(
    about="a view is a copy, and an update of it does not reach what it views",
    blame=BACKEND,
    reaches=lambda case: (
        runs(case)
        and any_operator(case, _writes)
        and any_operator(case, lambda layer: function(layer) in VIEWS)
    ),
)
def view_copied(session: Session, _case: Case, _rank: int) -> Session:
    """Its numbers are right."""
    return with_results(session, torch.Tensor.clone, lambda layer: function(layer) in VIEWS)


def _shifted(layer: Operator) -> Operator:
    """The layer whose last argument, a negative index, is one less; the same where that is impossible."""
    *before, last = layer.arguments or (None,)
    size = min((min(operand.shape) for operand in layer.operands.values() if operand.shape), default=0)
    if function(layer) in WITH_INDEX and type(last) is int and -size < last < 0:
        return structs.replace(layer, arguments=(*before, last - 1))
    return layer


@of_operators(
    about="a negative index is off by one",
    blame=BACKEND,
    reaches=_changed_by(_shifted),
)
def negative_index_shifted(session: Session, _case: Case, _rank: int) -> Session:
    """As if counted from the last but one."""
    return _edited(session, _shifted)


def _overwriting(layer: Operator) -> Operator:
    name = function(layer)
    return structs.replace(layer, call=layer.call.replace(name, ADDING[name])) if name in ADDING else layer


@of_operators(
    about="what has the same index is not added, but overwritten",
    blame=BACKEND,
    reaches=_changed_by(_overwriting),
)
def repeats_overwritten(session: Session, _case: Case, _rank: int) -> Session:
    """`index_add` is `index_copy`, and `scatter_add` is `scatter`."""
    return _edited(session, _overwriting)


def _over_another_dim(layer: Operator) -> Operator:
    dims = max((len(operand.shape) for operand in layer.operands.values()), default=0)
    if function(layer) not in OVER_A_DIM or dims < 2:  # noqa: PLR2004  there is another one
        return layer
    other = {0: -1, -1: 0, dims - 1: 0}
    if type(dim := layer.options.get("dim")) is int and dim in other:
        return structs.replace(layer, options={**layer.options, "dim": other[dim]})
    *before, last = layer.arguments or (None,)
    if type(last) is int and last in other:
        return structs.replace(layer, arguments=(*before, other[last]))
    return layer


@of_operators(
    about="a wrong dim is reduced",
    blame=BACKEND,
    reaches=_changed_by(_over_another_dim),
)
def wrong_dim_reduced(session: Session, _case: Case, _rank: int) -> Session:
    """The first for the last, and the other way round."""
    return _edited(session, _over_another_dim)


@of_operators(
    about="wrong arguments are accepted",
    blame=BACKEND,
    reaches=lambda case: (
        case.model.is_program and all(layer.rejects for layer in case.model.operators.values())
    ),
)
def wrong_arguments_accepted(session: Session, _case: Case, _rank: int) -> Session:
    """The result is the first operand."""

    def install(module: Any) -> None:  # noqa: ANN401
        def forward(tensors: Mapping[str, Any]) -> dict[str, Any]:
            return {f"{module.path}.output": next(iter(tensors.values()))}

        module.forward = forward

    return hooked(session, install, lambda layer: layer.rejects)


@of_operators(about="a result has one dim more", blame=BACKEND, reaches=runs)
def result_dim_added(session: Session, _case: Case, _rank: int) -> Session:
    """Of size 1, behind the others; the numbers are right."""
    return with_results(session, floats_only(lambda tensor: tensor.unsqueeze(-1)))
