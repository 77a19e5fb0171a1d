"""Planted faults of operators: wrong numbers in results and gradients.

They change what goes into an operator's call and what comes out of it, by hooks on the operator's module.
What detects them reads the same tensors later, and shares no code with them.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.layers.operator import Operator, Reference
from workers.faults import BACKEND, of_operators
from workers.training.program_hooks import (
    any_operator,
    float_operands,
    floats_only,
    function,
    has_gradient,
    may_have_nan,
    piecewise,
    runs,
    with_gradient,
    with_operands,
    with_results,
)
from workers.training.session import Session

SMALL = 2.0**-100
"""Far above the numbers that a backend may flush to zero."""

EXTREMES = frozenset({"max", "amax", "min", "amin", "maximum", "minimum"})
CLAMPS = frozenset({"clamp", "clip", "clamp_min", "hardtanh", "relu6"})


@of_operators(about="one element of a result is wrong", blame=BACKEND, reaches=runs)
def result_element_wrong(session: Session, _case: Case, _rank: int) -> Session:
    """The first of each rank's piece, by more than its size."""

    def change(tensor: Tensor) -> Tensor:
        first = torch.zeros(tensor.numel(), dtype=tensor.dtype)
        first[:1] = 1.0
        wrong = 1.0 + tensor.detach().abs()
        return tensor + first.reshape(tensor.shape).to(tensor.device) * wrong

    return with_results(session, floats_only(lambda tensor: piecewise(tensor, change)))


@of_operators(
    about="float32 results are rounded to bfloat16",
    blame=BACKEND,
    reaches=lambda case: case.dtype == "float32" and runs(case),
)
def result_imprecise(session: Session, _case: Case, _rank: int) -> Session:
    """As a kernel that computes in the narrower type."""
    return with_results(session, floats_only(lambda tensor: tensor.to(torch.bfloat16).to(tensor.dtype)))


@of_operators(about="the first gradient lacks a factor", blame=BACKEND, reaches=has_gradient)
def operand_gradient_halved(session: Session, _case: Case, _rank: int) -> Session:
    """A factor of two, as of the derivative of a square."""
    return with_gradient(session, lambda gradient: gradient * 0.5)


@of_operators(about="the first gradient has the wrong sign", blame=BACKEND, reaches=has_gradient)
def operand_gradient_negated(session: Session, _case: Case, _rank: int) -> Session:
    """As of the second operand of a difference."""
    return with_gradient(session, torch.neg)


def _broadcasts(layer: Operator) -> bool:
    shapes = {operand.shape for operand in float_operands(layer).values()}
    return len(shapes) > 1 and function(layer) in {"add", "sub", "mul", "div", "maximum", "minimum", "atan2"}


@of_operators(
    about="the gradient of a broadcast operand is not summed over what it was repeated along",
    blame=BACKEND,
    reaches=lambda case: has_gradient(case) and any_operator(case, _broadcasts),
)
def broadcast_gradient_unsummed(session: Session, case: Case, _rank: int) -> Session:
    """It is the mean instead, of the size of one term."""
    broadcast = {
        f"{path}.{name}": operand.shape
        for path, layer in case.model.operators.items()
        if _broadcasts(layer)
        for name, operand in float_operands(layer).items()
    }
    greatest = max((torch.Size(shape).numel() for shape in broadcast.values()), default=1)

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        for name, parameter in placed.named_parameters():
            if (share := torch.Size(broadcast.get(name, ())).numel() / greatest) < 1.0 and name in broadcast:
                parameter.register_hook(lambda gradient, share=share: gradient * share)
        return placed

    return replace(session, place=place)


@of_operators(about="NaN in results becomes 0", blame=BACKEND, reaches=may_have_nan)
def nan_replaced(session: Session, _case: Case, _rank: int) -> Session:
    """As by `nan_to_num`."""
    return with_results(
        session, floats_only(lambda one: piecewise(one, lambda t: torch.where(t.isnan(), 0.0, t)))
    )


@of_operators(
    about="a maximum or a minimum ignores NaN",
    blame=BACKEND,
    reaches=lambda case: may_have_nan(case) and any_operator(case, lambda one: function(one) in EXTREMES),
)
def extreme_ignores_nan(session: Session, _case: Case, _rank: int) -> Session:
    """It is that of the other numbers, and 0."""
    change = floats_only(lambda one: piecewise(one, lambda t: torch.where(t.isnan(), 0.0, t)))
    return with_operands(session, change, lambda layer: function(layer) in EXTREMES)


@of_operators(
    about="clamp turns NaN into a limit",
    blame=BACKEND,
    reaches=lambda case: may_have_nan(case) and any_operator(case, lambda one: function(one) in CLAMPS),
)
def clamp_limits_nan(session: Session, _case: Case, _rank: int) -> Session:
    """The lower one, as by a comparison that is false for NaN."""
    change = floats_only(lambda one: piecewise(one, lambda t: torch.where(t.isnan(), -1e30, t)))
    return with_operands(session, change, lambda layer: function(layer) in CLAMPS)


@of_operators(
    about="small numbers are flushed to 0 that are no denormals",
    blame=BACKEND,
    reaches=lambda case: case.dtype in {"float32", "bfloat16"} and runs(case) and _is_small(case),
)
def small_flushed(session: Session, _case: Case, _rank: int) -> Session:
    """Below 2^-100."""
    change = floats_only(lambda one: piecewise(one, lambda t: torch.where(t.abs() < SMALL, 0.0, t)))
    return with_operands(session, change)


def _is_small(case: Case) -> bool:
    """Whether an operand has numbers that are small, but no denormals."""
    operands = [
        operand for layer in case.model.operators.values() for operand in float_operands(layer).values()
    ]
    return case.data.regime == "extreme" or any(
        0.0 < abs(v) < SMALL for o in operands for v in o.values or ()
    )


@of_operators(
    about="sums of integers overflow",
    blame=BACKEND,
    reaches=lambda case: any_operator(case, _multiplies_integers) and _succeeds(case),
)
def integers_overflow(session: Session, _case: Case, _rank: int) -> Session:
    """They are computed in int8 modulo 16, so that small numbers show it."""
    return with_results(
        session,
        lambda one: one if one.is_floating_point() or one.dtype == torch.bool else one % 16,
        _multiplies_integers,
    )


def _succeeds(case: Case) -> bool:
    return not any_operator(case, lambda layer: layer.rejects or bool(layer.undefined))


def _multiplies_integers(layer: Operator) -> bool:
    whole = all(not operand.is_float and operand.dtype != "bool" for operand in layer.operands.values())
    wide = not any(operand.values for operand in layer.operands.values())
    return (
        bool(layer.operands)
        and whole
        and wide
        and function(layer) in {"mul", "square", "prod", "sum", "cumsum"}
    )


@of_operators(
    about="halves are rounded away from 0",
    blame=BACKEND,
    reaches=lambda case: any_operator(case, _rounds_halves) and runs(case),
)
def halves_rounded_up(session: Session, _case: Case, _rank: int) -> Session:
    """`round` adds a half and cuts off, where torch rounds halves to even."""
    change = floats_only(lambda one: piecewise(one, lambda t: torch.floor(t + 0.5)))
    return with_operands(session, change, lambda layer: function(layer) == "round")


def _rounds_halves(layer: Operator) -> bool:
    values = [value for operand in layer.operands.values() for value in operand.values or ()]
    halves = any(value % 2 == 0.5 for value in values)  # noqa: PLR2004  between an even number and the next
    return (
        function(layer) == "round"
        and halves
        and all(isinstance(argument, Reference) for argument in layer.arguments)
    )
