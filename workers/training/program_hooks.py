"""Hooks on a program's operators, which planted faults use, and what a case says of its operators."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from torch import Tensor, nn

from difftest.cases.case import Case
from difftest.cases.layers.operator import Operand, Operator, full_name
from workers.training.layers.operator import Operator as Module
from workers.training.session import Session

Change: TypeAlias = Callable[[Tensor], Tensor]
Applies: TypeAlias = Callable[[Operator], bool]

MAKES_NAN = frozenset({"sqrt", "log", "asin", "acos"})
"""Operators that give NaN outside their domain."""


def function(layer: Operator) -> str:
    """The name of what an operator calls, without its module and without the underscore of in-place forms."""
    return layer.call.rpartition(".")[2].removesuffix("_")


def with_results(session: Session, change: Change, applies: Applies = lambda _: True) -> Session:
    """The session in which `change` is applied to every tensor that the chosen operators give."""

    def hook(_module: nn.Module, _tensors: Any, results: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
        return {
            name: change(result) if isinstance(result, Tensor) else result for name, result in results.items()
        }

    return hooked(session, lambda module: module.register_forward_hook(hook), applies)


def with_operands(session: Session, change: Change, applies: Applies = lambda _: True) -> Session:
    """The session in which the chosen operators get every tensor as `change` makes it."""

    def hook(module: Any, operands: tuple[Mapping[str, Any]]) -> tuple[dict[str, Any]]:  # noqa: ANN401
        used = {full_name(module.path, name) for name in module.layer.references()}
        return ({n: change(t) if n in used and isinstance(t, Tensor) else t for n, t in operands[0].items()},)

    return hooked(session, lambda module: module.register_forward_pre_hook(hook), applies)


def with_gradient(session: Session, change: Change) -> Session:
    """The session in which the first operand's gradient is changed as it arrives."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        next(p for p in placed.parameters() if p.requires_grad).register_hook(change)
        return placed

    return replace(session, place=place)


def hooked(session: Session, install: Callable[[Any], object], applies: Applies) -> Session:
    """The session in which `install` is called with the placed modules of the chosen operators."""

    def place(module: nn.Module) -> nn.Module:
        placed = session.place(module)
        for inner in placed.modules():
            if isinstance(inner, Module) and applies(inner.layer):
                install(inner)
        return placed

    return replace(session, place=place)


def piecewise(tensor: Tensor, change: Change) -> Tensor:
    """`change` of the tensor; of a DTensor, of each rank's own piece."""
    from torch.distributed.tensor import DTensor

    if not isinstance(tensor, DTensor):
        return change(tensor)
    return DTensor.from_local(
        change(tensor.to_local()),
        tensor.device_mesh,
        tensor.placements,
        run_check=False,
        shape=tensor.shape,
        stride=tensor.stride(),
    )


def floats_only(change: Change) -> Change:
    """`change` of floating-point tensors with elements; others stay as they are."""
    return lambda tensor: change(tensor) if tensor.is_floating_point() and tensor.numel() else tensor


def any_operator(case: Case, applies: Applies) -> bool:
    """Whether some operator of a program is one of those."""
    return any(applies(layer) for layer in case.model.operators.values())


def runs(case: Case) -> bool:
    """Whether every operator of the program is meant to succeed, and gives floats of floats."""
    return all(
        not layer.rejects and not layer.undefined for layer in case.model.operators.values()
    ) and any_operator(case, lambda layer: bool(float_operands(layer)))


def float_operands(layer: Operator) -> Mapping[str, Operand]:
    """The floating-point operands that have elements."""
    return {
        name: operand
        for name, operand in layer.operands.items()
        if operand.is_float and 0 not in operand.shape
    }


def has_gradient(case: Case) -> bool:
    """Whether the first float operand of a program requires a gradient, and an operator uses it."""
    for path, layer in case.model.operators.items():
        for name, operand in layer.operands.items():
            if operand.is_float:
                uses = any(
                    f"{path}.{name}" in set(later.references()) for later in case.model.operators.values()
                )
                return runs(case) and operand.gradient and (uses or name in set(layer.references()))
    return False


def may_have_nan(case: Case) -> bool:
    """Whether operators get NaN: by the regime, or from an operator outside its domain."""
    makes = any_operator(
        case,
        lambda layer: (
            function(layer) in MAKES_NAN
            and any(
                operand.low is None and operand.values is None for operand in float_operands(layer).values()
            )
        ),
    )
    return runs(case) and (makes or case.data.regime == "nonfinite")
