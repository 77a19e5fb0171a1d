"""How much faster eight inputs of a case are compared in processes that they share than in eight fresh runs.

Every backend has its own figure, because only XLA compiles. The target is that eight inputs take at most 1.3
times as long as one.
"""

import time
from collections.abc import Iterator, Sequence

from real_runs import together

from benchmarks.targets import Figure
from difftest.campaign.groups import can_share
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber
from difftest.judge.outcome import Failure
from generators.cases import case_at
from workers import backends

SEED, INPUTS, CASES = 6, 8, 6
MOST_TIMES_ONE = 1.3
BACKENDS = ("xla_spmd", "xla_replica", "torch_ddp", "torch_dtensor", "oracle")
WARM_UP = 1
"""The first case of a backend starts the process from which the others are forked."""


def figures() -> Iterator[Figure]:
    """For each backend, over the first cases that it runs without a failure."""
    for backend in BACKENDS:
        one, all_inputs = 0.0, 0.0
        for inputs in _measured(backend):
            one += _seconds(inputs[:1], backend)
            all_inputs += _seconds(inputs, backend)
        words = f"{backend}: {INPUTS} inputs alone / together ({all_inputs / one:.2f} times one)"
        yield Figure(words, INPUTS * one / all_inputs, INPUTS / MOST_TIMES_ONE)


def _measured(backend: str) -> list[list[Case]]:
    """The inputs of the first cases that can share processes on the backend and do not fail there."""
    chosen, index = list[list[Case]](), 0
    while len(chosen) < CASES + WARM_UP:
        inputs = [case_at(SEED, CaseNumber(index, input=further)) for further in range(INPUTS)]
        index += 1
        able = can_share(*inputs[:2]) and not backends.load(backend).unsupported(inputs[0])
        if able and not isinstance(together(inputs[:1], backend)[0], Failure):
            chosen.append(inputs)
    return chosen[WARM_UP:]


def _seconds(cases: Sequence[Case], backend: str) -> float:
    began = time.monotonic()
    together(cases, backend)
    return time.monotonic() - began
