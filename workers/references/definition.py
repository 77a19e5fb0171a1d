"""A run by its definitions, beside torch's run of the same case in float64 on one device.

Every step begins with torch's own parameters, and every update with torch's own gradients, so that an error
shows where it is made. What has no definition here is as torch has it; the environment says what was
computed, and by what.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.layout import ALONE
from difftest.ground import installed
from difftest.ground.errors import UnsupportedError
from difftest.judge.outcome import Sharded, Tensors, Trace
from difftest.judge.stage import Stage
from workers.references import operators, passes, updates
from workers.references.optimizers import Floats
from workers.references.passes import Pass, Passes, Program

COMPUTED = "definitions"
"""The key of the environment that says what was computed, and by what."""

FAILED = "a definition failed"
"""How the refusal of a program begins whose definition is at fault."""


def lacks(case: Case) -> str:
    """Why nothing of a case has a definition here; empty where something has one."""
    if case.model.own:
        return "the definitions of a module of the user's are the user's"
    if case.model.is_program:
        return operators.lacks(case)
    return passes.lacks(case) and updates.lacks(case)


def defined(case: Case, of_torch: Trace) -> Trace:
    """The run of `case` by its definitions; `of_torch` is torch's own."""
    if case.model.is_program:
        return _program(case, of_torch)
    words, steps = list[str](), [dict(step) for step in of_torch.steps]
    after = [_values(step, Stage.UPDATE) for step in steps]
    before = [_parameters(case, values) for values in (_floats(numbers.weights(case)), *after[:-1])]
    if not passes.lacks(case):
        _put_passes(case, before, steps)
        words.append(f"outputs{' and gradients' if installed.version('jax') else ''} by {passes.makers()}")
    if not updates.lacks(case):
        gradients = [_parameters(case, _values(step, Stage.BACKWARD)) for step in of_torch.steps]
        for step, parameters in zip(steps, updates.updates(case, before, gradients), strict=True):
            _put(step, Stage.UPDATE, parameters)
        words.append(f"updates by numpy {np.__version__}")
    environment = {**of_torch.environment, COMPUTED: "; ".join(words)}
    return dataclasses.replace(of_torch, steps=tuple(steps), environment=environment)


def _program(case: Case, of_torch: Trace) -> Trace:
    """A program's results, loss and gradients.

    At infinities and NaN, such as a remainder by zero, a derivative is what the way in which a formula is
    written makes it, so that there gradients are torch's. So is an element of a gradient that is not finite:
    there the formula has a pole, as a root at 0, or no derivative at all, as `atan2` at the origin. If there
    is one, of an operand or of a result, what is NaN in torch and 0 by the definition is torch's too: a
    derivative of 0 passes NaN on where it is a factor, and not where it is a choice.

    `UnsupportedError` where a definition fails: that is a fault of the definition, and none of torch. The
    campaign counts such a case as refused, with this reason.
    """
    (step,) = (dict(step) for step in of_torch.steps)
    weights = {name: np.asarray(value) for name, value in numbers.weights(case).items()}
    try:
        program = passes.of_program(case, weights)
    except Exception as error:
        msg = f"{FAILED}: {type(error).__name__}: {error}"
        raise UnsupportedError(msg) from error
    _put(step, Stage.FORWARD, {**program.results, "loss": program.loss})
    values = (*weights.values(), *program.results.values(), program.loss)
    finite = all(np.isfinite(value).all() for value in values)
    if finite:
        _put(step, Stage.BACKWARD, _completed(program, _values(step, Stage.BACKWARD)))
    computed = f"operators{'' if finite else ' without derivatives'} by {passes.makers()}"
    environment = {**of_torch.environment, COMPUTED: computed}
    return dataclasses.replace(of_torch, steps=(step,), environment=environment)


def _put_passes(
    case: Case, before: Sequence[Mapping[str, Floats]], steps: Sequence[dict[tuple[Stage, str], Sharded]]
) -> None:
    """Puts outputs, losses and gradients by their definitions in the place of torch's."""
    computing = Passes(case)
    for step, tensors in enumerate(steps):
        parts = computing.of_step(before[step], step)
        names = ["output"] if len(parts) == 1 else [f"output.{index}" for index in range(len(parts))]
        outputs = {name: part.output for name, part in zip(names, parts, strict=True)}
        _put(tensors, Stage.FORWARD, {**outputs, "loss": np.asarray(sum(part.loss for part in parts))})
        _put(tensors, Stage.BACKWARD, _summed(parts))


def _completed(program: Program, of_torch: Mapping[str, Floats]) -> dict[str, Floats]:
    """The gradients that torch has too, with torch's elements where `_program` says so."""
    every = (*program.gradients.values(), *program.of_results.values())
    some_are_not_finite = not all(np.isfinite(gradient).all() for gradient in every)

    def own(gradient: Floats, there: Floats) -> Floats:
        passed_on = some_are_not_finite & (gradient == 0.0) & np.isnan(there)
        return np.where(np.isfinite(gradient) & ~passed_on, gradient, there)

    return {
        name: own(gradient, of_torch[name])
        for name, gradient in program.gradients.items()
        if name in of_torch
    }


def _summed(parts: Sequence[Pass]) -> dict[str, Floats]:
    """The gradients of a batch: the sum of its parts'."""
    every = [part.gradients for part in parts if part.gradients is not None]
    names = every[0] if every else ()
    return {name: np.asarray(sum(gradients[name] for gradients in every)) for name in names}


def _put(tensors: dict[tuple[Stage, str], Sharded], stage: Stage, values: Mapping[str, Floats]) -> None:
    """Puts values in the place of torch's; what torch has not, as gradients of frozen weights, stays so."""
    for name, value in values.items():
        if there := tensors.get((stage, name)):
            typed = value.astype(there.pieces[0].dtype)  # booleans are kept as int8
            tensors[stage, name] = dataclasses.replace(there, shape=typed.shape, pieces={0: typed})


def _parameters(case: Case, values: Mapping[str, Floats]) -> dict[str, Floats]:
    """Those of parameters: a run has buffers too, and gradients of modules where a fault is located."""
    own = case.model.parameters()
    return {name: value for name, value in values.items() if name in own}


def _values(step: Tensors, stage: Stage) -> dict[str, Floats]:
    """The values of one stage by name."""
    return _floats({name: tensor.full(ALONE) for (at, name), tensor in step.items() if at is stage})


def _floats(values: Mapping[str, Floats]) -> dict[str, Floats]:
    return {name: np.asarray(value, np.float64) for name, value in values.items()}
