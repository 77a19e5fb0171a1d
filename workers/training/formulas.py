"""Optimizers by the formulas of torch's documentation, one tensor after another in a few plain operators."""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor

from workers.training.features.autocast import simulated_as

State: TypeAlias = dict[str, Any]
"""What is kept of one parameter: tensors, and `steps`, which counts from 1."""

FIRST, SECOND = 0.9, 0.999
"""By how much Adam and its relatives keep the moments."""

TINY = 1e-8


def _zero(state: State, like: Tensor, *names: str) -> list[Tensor]:
    return [state.setdefault(name, torch.zeros_like(like)) for name in names]


def adadelta(gradient: Tensor, state: State, rate: float) -> Tensor:
    """Steps in units of earlier steps."""
    squares, steps = _zero(state, gradient, "squares", "steps of before")
    state["squares"] = squares = 0.9 * squares + 0.1 * gradient**2
    step = ((steps + 1e-6).sqrt() / (squares + 1e-6).sqrt()) * gradient
    state["steps of before"] = 0.9 * steps + 0.1 * step**2
    return rate * step


def adafactor(gradient: Tensor, state: State, rate: float) -> Tensor:
    """The second moment of a matrix is a product of its rows' and columns'; steps are as large as it is."""
    step, least = state["steps"], torch.finfo(gradient.dtype).eps
    kept, squares = 1 - step**-0.8, gradient**2
    if gradient.dim() > 1:
        rows, columns = squares.mean(-1, keepdim=True), squares.mean(-2, keepdim=True)
        state["rows"] = rows = kept * state.get("rows", torch.zeros_like(rows)) + (1 - kept) * rows
        state["columns"] = columns = (
            kept * state.get("columns", torch.zeros_like(columns)) + (1 - kept) * columns
        )
        squares = rows * columns / rows.mean(-2, keepdim=True).clamp(min=least)
    else:
        state["squares"] = squares = (
            kept * state.get("squares", torch.zeros_like(squares)) + (1 - kept) * squares
        )
    change = gradient / squares.sqrt().clamp(min=least)
    size, change_size = (one.square().mean().sqrt() for one in (state["parameter"], change))
    return cast("Tensor", size.clamp(min=1e-3) * min(rate, step**-0.5) * change / change_size.clamp(min=1.0))


def adagrad(gradient: Tensor, state: State, rate: float) -> Tensor:
    """The sum of all squares."""
    (squares,) = _zero(state, gradient, "squares")
    state["squares"] = squares = squares + gradient**2
    return rate * gradient / (squares.sqrt() + 1e-10)


def adamax(gradient: Tensor, state: State, rate: float) -> Tensor:
    """Adam with the infinity norm."""
    mean, greatest = _zero(state, gradient, "mean", "greatest")
    state["mean"] = mean = FIRST * mean + (1 - FIRST) * gradient
    state["greatest"] = greatest = torch.maximum(SECOND * greatest, gradient.abs() + TINY)
    return cast("Tensor", rate / (1 - FIRST ** state["steps"]) * mean / greatest)


def asgd(gradient: Tensor, state: State, rate: float) -> Tensor:
    """Descent whose rate falls. The average that it keeps beside the parameters is not looked at."""
    at = state.get("rate", rate)
    state["rate"] = rate / (1 + 1e-4 * rate * state["steps"]) ** 0.75
    return cast("Tensor", at * (gradient + 1e-4 * state["parameter"]))


def nadam(gradient: Tensor, state: State, rate: float) -> Tensor:
    """Adam with Nesterov momentum."""
    mean, square = _moments(gradient, state)
    now, after = (FIRST * (1 - 0.5 * 0.96 ** (0.004 * step)) for step in (state["steps"], state["steps"] + 1))
    state["product"] = product = state.get("product", 1.0) * now
    direction = after * mean / (1 - product * after) + (1 - now) * gradient / (1 - product)
    return cast("Tensor", rate * direction / ((square / (1 - SECOND ** state["steps"])).sqrt() + TINY))


def radam(gradient: Tensor, state: State, rate: float) -> Tensor:
    """Adam that waits for its second moment: from the sixth step on."""
    mean, square = _moments(gradient, state)
    step, most = state["steps"], 2 / (1 - SECOND) - 1
    length = most - 2 * step * SECOND**step / (1 - SECOND**step)
    mean = mean / (1 - FIRST**step)
    if length <= 5:  # noqa: PLR2004  the formula's
        return cast("Tensor", rate * mean)
    factor = math.sqrt((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length))
    corrected = factor * math.sqrt(1 - SECOND**step) / (square.sqrt() + TINY)
    return cast("Tensor", rate * mean * corrected)


def rmsprop(gradient: Tensor, state: State, rate: float) -> Tensor:
    """The moving average of squares."""
    (squares,) = _zero(state, gradient, "squares")
    state["squares"] = squares = 0.99 * squares + 0.01 * gradient**2
    return rate * gradient / (squares.sqrt() + TINY)


def rprop(gradient: Tensor, state: State, rate: float) -> Tensor:
    """Signs alone: steps grow while a gradient keeps its sign, and shrink where it changes."""
    (before,) = _zero(state, gradient, "gradient")
    sign = (gradient * before).sign()
    factor = torch.where(sign > 0, 1.2, torch.where(sign < 0, 0.5, torch.ones_like(sign)))
    size = state.get("size", torch.full_like(gradient, rate))
    state["size"] = size = (size * factor).clamp(1e-6, 50.0)
    state["gradient"] = kept = torch.where(sign < 0, 0.0, gradient)
    return cast("Tensor", kept.sign() * size)


def adam(gradient: Tensor, state: State, rate: float) -> Tensor:
    """Adam that counts steps in a tensor of its numbers' dtype, whose powers round."""
    mean, square = _moments(gradient, state)
    steps = gradient.new_full((), state["steps"])
    return rate / (1 - FIRST**steps) * mean / (square.sqrt() / (1 - SECOND**steps).sqrt() + TINY)


MUON, ITERATION = 0.95, (3.4445, -4.7750, 2.0315)
"""The momentum of Muon, and the coefficients of its iteration."""


def muon(gradient: Tensor, state: State, rate: float) -> Tensor:
    """The nearest orthogonal matrix to Nesterov's momentum, about; wide matrices are longer."""
    mean = _of_muon(gradient, state)
    return _orthogonal((1 - MUON) * gradient + MUON * mean, rate)


def muon_without_nesterov(gradient: Tensor, state: State, rate: float) -> Tensor:
    """As `muon`, of the momentum itself."""
    return _orthogonal(_of_muon(gradient, state), rate)


def _of_muon(gradient: Tensor, state: State) -> Tensor:
    (mean,) = _zero(state, gradient, "mean")
    state["mean"] = mean = MUON * mean + (1 - MUON) * gradient
    return mean


def _orthogonal(matrix: Tensor, rate: float) -> Tensor:
    """Five times a polynomial of odd powers, in bfloat16; the rate grows with the height of a matrix."""
    rows, columns = matrix.shape
    first, third, fifth = ITERATION
    with simulated_as("bfloat16"):
        power = matrix.bfloat16() if matrix.dtype == torch.float32 else matrix * 1.0
        power = power.T if rows > columns else power
        power = power / power.norm().clamp(min=1e-7)
        for _ in range(5):
            gram = power @ power.T
            power = first * power + (third * gram + fifth * (gram @ gram)) @ power
        power = power.T if rows > columns else power
    longer = math.sqrt(max(1.0, rows / columns))
    return cast("Tensor", power.to(matrix.dtype) * (rate * longer))


FORMULAS: dict[str, Callable[[Tensor, State, float], Tensor]] = {
    formula.__name__: formula
    for formula in (
        *(adadelta, adafactor, adagrad, adam, adamax, asgd, muon, muon_without_nesterov, nadam, radam),
        *(rmsprop, rprop),
    )
}
"""From a gradient, what was kept of its parameter and the learning rate to what is subtracted from it."""


class ByFormula(torch.optim.Optimizer):
    """An optimizer of `FORMULAS`; `weight_decay` is that of AdamW."""

    def __init__(self, trained: Iterable[Any], *, lr: float, kind: str, weight_decay: float = 0.0) -> None:
        super().__init__(trained, {"lr": lr, "weight_decay": weight_decay})
        self._formula = FORMULAS[kind]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # noqa: ARG002  torch's signature
        """One step of all parameters that have a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter]
                    state["steps"] = state.get("steps", 0) + 1
                    state["parameter"] = parameter
                    if group["weight_decay"]:
                        parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.sub_(self._formula(parameter.grad, state, group["lr"]))


def _moments(gradient: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """The moving averages of gradients and of their squares."""
    mean, square = _zero(state, gradient, "mean", "square")
    state["mean"] = FIRST * mean + (1 - FIRST) * gradient
    state["square"] = SECOND * square + (1 - SECOND) * gradient**2
    return state["mean"], state["square"]
