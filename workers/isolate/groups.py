"""Runs of several cases or backends: those that need the same processes share them, until one fails."""

from collections.abc import Iterable, Mapping, Sequence

from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError, UnsupportedError
from difftest.judge.outcome import Origin, Outcome
from workers import backends
from workers.isolate import limits, sandbox


def run(
    cases: Sequence[Case], requests: Sequence[Origin], *, deadline: float, options: Mapping[str, str]
) -> list[Outcome | InfrastructureError]:
    """An outcome for each run, or the error by which the machine spoiled it.

    `requests` has the request for each of the cases, with its backend; `deadline`, in seconds, is that of
    each run, and `options` are as in `sandbox.run`. The error is an `UnsupportedError` where this machine's
    packages cannot run the case. After a failure the processes are fresh, since a framework that has failed
    once may fail again for that reason. For the same reason a case that fails after others runs again in
    fresh processes, unless the framework only refused it. What every rank refused is no reason for fresh
    processes, except on PJRT.
    """
    outcomes = dict[int, Outcome | InfrastructureError]()
    runnable = list[int]()
    for index, (case, request) in enumerate(zip(cases, requests, strict=True)):
        if reason := backends.load(request.backend).unsupported(case):
            outcomes[index] = UnsupportedError(reason)
        else:
            runnable.append(index)
    for alike in _alike(runnable, cases, requests):
        left = alike
        while left:
            limited = limits.usual(cases[left[0]], deadline, options)
            made: Sequence[Outcome | InfrastructureError]
            try:
                made = sandbox.run_first(
                    [cases[index] for index in left], [requests[index] for index in left], options, limited
                )
            except InfrastructureError as error:
                made = [error] * len(left)
            outcomes.update(zip(left, made, strict=False))
            left = left[len(made) :]
    return [outcomes[index] for index in range(len(cases))]


def _alike(indices: Iterable[int], cases: Sequence[Case], requests: Sequence[Origin]) -> list[list[int]]:
    """The indices in sets whose runs need as many of the same processes with equal environment variables."""
    alike = dict[tuple[object, ...], list[int]]()
    for index in indices:
        module, case = backends.load(requests[index].backend), cases[index]
        key = module.PRELOAD, module.processes(case), *sorted(module.environment(case).items())
        alike.setdefault(key, []).append(index)
    return list(alike.values())
