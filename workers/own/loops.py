"""torch's functions of control flow as plain loops, for the oracle.

`scan` and its like compile their body, and what they compute in a release may be wrong: a gradient of what
the body closes over is, in torch 2.9.0. The oracle defines what they mean, so it runs them step by step. The
backends keep torch's own.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from importlib import import_module
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils import _pytree

Tree: TypeAlias = Any
"""A tensor, or a tuple, list or dict of trees, for which torch has no type."""

ROOT = "torch._higher_order_ops"

CALLED = set[str]()
"""The names of the functions that this process has called since they were replaced."""


@cache
def replaced() -> None:
    """Replaces the functions for the rest of this process; the user's source must be imported after that."""
    for place, function in LOOPS.items():
        name = function.__name__
        for holder in (_module(place), _module(ROOT), torch):
            if callable(getattr(holder, name, None)):
                setattr(holder, name, _noted(function))


def _noted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which notes its name in `CALLED`."""

    @wraps(function)
    def noted(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        CALLED.add(function.__name__)
        return function(*arguments, **named)

    return noted


def _module(name: str) -> Any:  # noqa: ANN401  a module, which a function of the same name may hide
    import_module(name)
    return sys.modules[name]


def scan(
    combine_fn: Callable[[Tree, Tree], tuple[Tree, Tree]],
    init: Tree,
    xs: Tree,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Tree, Tree]:
    """The last state, and what every step gives, stacked along a new first dim."""
    state, results, length = init, [], _length(xs, dim)
    if not length:
        return init, []
    for step in reversed(range(length)) if reverse else range(length):
        state, result = combine_fn(state, _at(xs, dim, step))
        results.append(result)
    return state, _stacked(results[::-1] if reverse else results, 0)


def associative_scan(
    combine_fn: Callable[[Tree, Tree], Tree],
    xs: Tree,
    dim: int,
    reverse: bool = False,  # noqa: FBT001, FBT002  as torch's
    combine_mode: str = "pointwise",  # noqa: ARG001
) -> Tree:
    """What all steps so far combine to, for every step; along `dim`."""
    steps = [_at(xs, dim, step) for step in range(_length(xs, dim))]
    results = [state := steps.pop(-1 if reverse else 0)]
    while steps:
        results.append(state := combine_fn(state, steps.pop(-1 if reverse else 0)))
    return _stacked(results[::-1] if reverse else results, dim)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Tree]
) -> tuple[Tree, ...]:
    """The state at which the condition no longer holds."""
    state = tuple(carried_inputs)
    while bool(cond_fn(*state)):
        after = body_fn(*state)
        state = tuple(after) if isinstance(after, tuple | list) else (after,)
    return state


def map(f: Callable[..., Tree], xs: Tree, *args: Any) -> Tree:  # noqa: A001, ANN401  torch's name
    """What the function gives for every row, stacked."""
    return _stacked([f(_at(xs, 0, row), *args) for row in range(_length(xs, 0))], 0)


def cond(
    pred: Any,  # noqa: ANN401  a number or a tensor
    true_fn: Callable[..., Tree],
    false_fn: Callable[..., Tree],
    operands: Sequence[Tree] = (),
) -> Tree:
    """One of the functions, called with the operands."""
    return (true_fn if bool(pred) else false_fn)(*operands)


def _length(xs: Tree, dim: int) -> int:
    return next((leaf.shape[dim] for leaf in _pytree.tree_leaves(xs)), 0)


def _at(xs: Tree, dim: int, step: int) -> Tree:
    return _pytree.tree_map(lambda leaf: leaf.select(dim, step), xs)


def _stacked(results: Sequence[Tree], dim: int) -> Tree:
    def stack(*leaves: Tensor | None) -> Tensor | None:
        tensors = [leaf for leaf in leaves if leaf is not None]
        return torch.stack(tensors, dim) if tensors else None

    return _pytree.tree_map(stack, *results)


LOOPS: Mapping[str, Callable[..., Any]] = {
    f"{ROOT}.scan": scan,
    f"{ROOT}.associative_scan": associative_scan,
    f"{ROOT}.while_loop": while_loop,
    f"{ROOT}.map": map,
    f"{ROOT}.cond": cond,
}
"""By the module that has torch's function of the same name."""
