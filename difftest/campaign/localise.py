"""Where a finding first shows: the first module whose output, or gradient, is off by more than rounding.

The oracle, with more samples of its rounding noise, and the candidate run once more with
`DIFFTEST_TRACE_MODULES=1`, which keeps every module's tensors; only findings pay for that. A module is an
operator of the model, or a block of them. Where a module is given what no module gave, code of the module
around it has made that, and is named: `module 0.attention (Attention) before its o (Linear)`. The layout does
not say how an activation inside of the model is sharded: under tensor parallelism a rank holds a slice of its
width. Such a tensor is not compared, and counted.
"""

import re
from collections.abc import Iterable, Iterator

from difftest.campaign.campaign import ORACLE, Campaign, run_backend
from difftest.campaign.confirmation import MORE_SAMPLES
from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.cases.layers import walk
from difftest.judge.measured import Key, MeasuredRun, beyond, describe, measure_run
from difftest.judge.outcome import Failure, Symptom
from difftest.judge.stage import Stage

VARIABLE = "DIFFTEST_TRACE_MODULES"
"""The environment variable that makes workers keep every module's tensors."""

MODULE = "module "
"""How the names of such tensors begin.

The module's path follows, `INPUT` for what it is given, and for later accumulation parts their number.
"""

INPUT = " input"
"""Follows a module's path where the tensor is the module's first input, and no module gave it."""


LOCATED = (Symptom.MISMATCH, Symptom.NONFINITE)
"""The symptoms that have a first wrong module."""

_PLACE = re.compile(r": (module .*?)(?:, after |, the first of all|$)")


def place(located: Iterable[str]) -> str:
    """The first module of what `locate` gave, such as `module 1.0 (Linear)`; empty where there is none."""
    return next((match[1] for line in located if (match := _PLACE.search(line))), "")


def locate(campaign: Campaign, case: Case, backend: str) -> tuple[str, ...]:
    """The first module beyond rounding in the forward and in the backward pass, in words.

    Empty if either run fails.

    `InfrastructureError` where a run could not be had.
    """
    truth = run_backend(campaign, case, ORACLE, {**MORE_SAMPLES, VARIABLE: "1"}).outcome
    actual = run_backend(campaign, case, backend, {VARIABLE: "1"}).outcome
    if isinstance(truth, Failure) or isinstance(actual, Failure):
        return ()
    side = campaign.backends[backend].SIDE
    run = measure_run(case, backend, side, truth, actual, exact=inexact(case) is None)
    return tuple(line for stage in (Stage.FORWARD, Stage.BACKWARD) if (line := first_beyond(run, stage)))


def first_beyond(run: MeasuredRun, stage: Stage) -> str:
    """The first module of one stage that is beyond rounding, in the oracle's order, in words.

    Empty if none was traced.
    """
    traced = [
        (step, at, name)
        for step, tensors in enumerate(run.expected.steps)
        for at, name in tensors
        if name.startswith(MODULE)
    ]
    keys = [key for key in traced if key[1] is stage]
    if not keys:
        return ""
    compared = [key for key in keys if key in run.measured]
    missing = len(keys) - len(compared)
    rest = f"; {missing} of {len(keys)} could not be compared" if missing else ""
    inside = frozenset(_path(key) for key in traced)
    for number, key in enumerate(compared):
        if beyond(run.measured[key]):
            before = "the first of all"
            if number:
                before = f"after {called(run.case, compared[number - 1])}, which agrees"
            place = f"{_place(run.case, key, inside)}, {before}"
            return f"{stage}, step {key[0]}: {place}: {describe(run.measured[key])}{rest}"
    return f"{stage}: no module is beyond rounding{rest}"


def _place(case: Case, key: Key, inside: frozenset[str]) -> str:
    """The module whose own computation ends in a tensor, or in a gradient; `inside` are the traced paths.

    An input's gradient comes from the module that is given the input. An output's comes from the code that
    takes the output, in the module around.
    """
    path, backward = _path(key), key[1] is Stage.BACKWARD
    of_input = INPUT in key[2]
    around = next((above for above in _above(path) if above in inside), None)
    if of_input == backward or around is None:
        return called(case, (*key[:2], key[2].replace(INPUT, "")))
    outer = called(case, (*key[:2], key[2].replace(INPUT, "").replace(path, around, 1)))
    kind = _kinds(case).get(path)
    part = path.removeprefix(f"{around}.") + (f" ({kind})" if kind else "")
    return f"{outer} {'before' if of_input else 'after'} its {part}"


def _above(path: str) -> Iterator[str]:
    """The modules around one, the nearest first."""
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def _path(key: Key) -> str:
    return key[2].removeprefix(MODULE).partition(" ")[0]


def called(case: Case, key: Key) -> str:
    """A module with its kind, `module 1.0 (Linear)`.

    A part of a layer with the layer's, `module 2.q (of Attention)`. A module of the user's has its classes.
    """
    name, path = key[2], _path(key)
    kinds = _kinds(case)
    return (
        f"{name} ({kinds[path]})"
        if path in kinds
        else f"{name} (of {kinds.get(path.rpartition('.')[0], 'the model')})"
    )


def _kinds(case: Case) -> dict[str, str]:
    """The kinds of layers, and the classes of the modules of the user's with their lines, by path."""
    kinds = {at: type(layer).__name__ for at, layer in walk(case.model.layers)}
    if own := case.model.own:
        lines = {title: f", {line}" for title, line in own.lines.items()}
        kinds |= {f"0.{at}".rstrip("."): title + lines.get(title, "") for at, title in own.modules.items()}
    return kinds
