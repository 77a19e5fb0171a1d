"""The call of a program that gives a tensor: its operator, its arguments, and the numbers that it gets."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from difftest.cases import numbers
from difftest.cases.layers.module import Module, function_called
from difftest.cases.layers.operator import Argument, Operator, full_name
from difftest.judge.measured import Floats, Key, MeasuredRun
from difftest.judge.noise import PRECISIONS, THRESHOLD
from difftest.judge.stage import Stage

RELATIVE = 16.0
"""The error that a prediction's own rounding may have, in units of roundoff."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a program; `path` is its place."""

    run: MeasuredRun
    path: str
    layer: Operator

    @property
    def function(self) -> str:
        """The name of the operator, or of the function that a module calls."""
        return function_called(self.layer.title)

    def tensors(self) -> Iterator[Floats]:
        """The tensors in its arguments in order: the case's own, or the oracle's earlier results."""
        initial = numbers.weights(self.run.case)
        for reference in self.layer.references():
            name = full_name(self.path, reference)
            if name in initial:
                yield np.asarray(initial[name], np.float64)
            elif (at := (0, Stage.FORWARD, name)) in self.run.measured:
                yield np.asarray(self.run.truth(at)[0], np.float64)

    def option(self, name: str) -> Argument:
        """An argument that is passed by name, to the function or to the class of the module."""
        return self.layer.named_arguments.get(name)

    def number(self, name: str, default: float) -> float:
        """A number that is passed by name; `default` where there is none."""
        option = self.option(name)
        return float(option) if isinstance(option, int | float) else default

    def epsilon(self, default: float) -> float:
        """The epsilon of a norm, passed by name or by position."""
        small = (one for one in self.plain_numbers() if 0.0 < one < 1.0)
        return self.number("eps", next(small, default))

    @property
    def positional(self) -> tuple[Argument, ...]:
        """What is passed by position, to the function or to the class of the module."""
        arguments = self.layer.made.arguments if isinstance(self.layer, Module) else ()
        return (*self.layer.arguments, *arguments)

    def plain_numbers(self) -> list[float]:
        """The numbers among the arguments that are passed by position."""
        return [
            float(one)
            for one in self.positional
            if isinstance(one, int | float) and not isinstance(one, bool)
        ]


def call_at(run: MeasuredRun, at: Key) -> Call | None:
    """The call that a tensor of a program belongs to; None where there is none."""
    path = at[2].partition(".")[0]
    layer = run.case.model.operators.get(path)
    return Call(run=run, path=path, layer=layer) if layer is not None else None


def compared(run: MeasuredRun, at: Key) -> tuple[Floats, Floats, Floats]:
    """A tensor as the oracle has it, the floors of its rounding, and as the candidate has it, in float64.

    What the oracle leaves undecided has an infinite floor.
    """
    truth, floors, actual = run.beside(at)
    return np.asarray(truth, np.float64), floors, np.asarray(actual.full(run.case.layout.mesh), np.float64)


def is_within(run: MeasuredRun, at: Key, predicted: Floats, most: Floats | float = 0.0) -> bool:
    """Whether a tensor is `predicted` but for rounding, and for an error of at most `most`."""
    _, floors, value = compared(run, at)
    if predicted.shape != value.shape:
        return False
    allowed = THRESHOLD * floors + most + RELATIVE * roundoff(run) * np.abs(predicted)
    return bool((~np.isfinite(floors) | (np.abs(value - predicted) <= allowed)).all())


def roundoff(run: MeasuredRun) -> float:
    """The unit roundoff of the case's dtype."""
    return PRECISIONS[run.case.dtype].roundoff
