"""One run, isolated: every rank is a process forked from a warm zygote, within limits.

The limits are on time without progress, memory and output. Whatever the ranks do - finish, raise, abort,
crash, hang, exceed a limit - the result is an `Outcome`. A fault of the machine itself (the zygote gone, a
full disk, a rank killed from outside, no CPU to be had) raises `InfrastructureError`. The process groups of
the ranks are killed when the run ends.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import reduce

from difftest.cases.case import Case
from difftest.errors import InfrastructureError
from difftest.judge.outcome import Failure, Origin, Outcome, Trace
from difftest.own_folder import own_folder
from workers import backends
from workers.deadlines import DEADLINE_SECONDS
from workers.isolate import limits, run_folder
from workers.isolate.answers import new_request, require_answer
from workers.isolate.failures import failure_of
from workers.isolate.limits import Limits
from workers.isolate.ranks import Ranks, Share, run_ranks
from workers.isolate.zygotes import zygote_with


def run(  # noqa: PLR0913  everything but case and backend has a default
    case: Case,
    backend: str,
    *,
    deadline: float = DEADLINE_SECONDS,
    options: Mapping[str, str] | None = None,
    allowed: Limits | None = None,
    share: Share | None = None,
    number: str = "",
) -> Outcome:
    """Runs `case` on `backend` in fresh processes and returns the outcome.

    * `deadline`: how many seconds the usual work may make no progress (`workers.isolate.progress`); options
      that ask for more work raise it in proportion.
    * `options`: further environment variables of the processes (a variant, an ablation, a planted fault).
    * `allowed`: all limits, in place of `deadline` and the default ones.
    * `share`: only these ranks run here, the others on other nodes.
    * `number`: what the outcome's origin says of this request, by default a new number.

    Raises `InfrastructureError` where the machine, not the backend, is to blame.
    """
    allowed = allowed or limits.usual(case, deadline, options or {})
    return run_first([case], [new_request(case, backend, number)], options or {}, allowed, share)[0]


def run_first(
    cases: Sequence[Case],
    requests: Sequence[Origin],
    options: Mapping[str, str],
    allowed: Limits,
    share: Share | None = None,
) -> Sequence[Outcome]:
    """Runs cases one after another in the same fresh processes; the outcomes of the first of them.

    These are the traces up to the first failure. A failure counts only where nothing ran before its case:
    then it is the only outcome. `requests` has the request for each case, all for one backend. The first
    case decides what the processes are; the others must need the same. The rest is as in `run`.
    """
    backend = requests[0].backend
    try:
        return _run(cases, requests, options, allowed, share)
    except OSError as error:
        msg = f"the machine failed case {cases[0].id} on {backend}: {error}"
        raise InfrastructureError(msg) from error


def _run(
    cases: Sequence[Case],
    requests: Sequence[Origin],
    options: Mapping[str, str],
    allowed: Limits,
    share: Share | None,
) -> Sequence[Outcome]:
    backend = requests[0].backend
    module = backends.load(backend)
    zygote = zygote_with(module.PRELOAD)
    with own_folder("run") as folder:
        folders = run_folder.prepared(folder, len(cases))
        request = {
            "cases": [case.to_json().decode() for case in cases],
            "numbers": [origin.number for origin in requests],
            "folders": list(map(str, folders)),
            "backend": backend,
            "environment": {**module.environment(cases[0]), **options},
        }
        ranks = run_ranks(zygote, request, folders, share or range(module.processes(cases[0])), allowed)
        ranks.require_ended_by_itself()
        outcomes = _finished(ranks, requests) or [_failure(ranks, requests[0])]
        if isinstance(outcomes[0], Failure) and (reason := limits.full_disk(folder)):
            msg = f"case {cases[0].id} failed on {backend} while {reason}"
            raise InfrastructureError(msg)
        return outcomes


def _finished(ranks: Ranks, requests: Sequence[Origin]) -> list[Outcome]:
    """The traces of the first cases that every rank finished, until one of them exceeded a limit."""
    finished = list[Outcome]()
    for index in range(ranks.case() if ranks.excess else len(requests)):
        if not all(ranks.finished(rank, index) for rank in ranks.expected):
            break
        outcomes = [run_folder.read(ranks.folders[index], rank) for rank in ranks.expected]
        traces = [outcome for outcome in outcomes if isinstance(outcome, Trace)]
        for trace in traces:
            require_answer(trace, requests[index])
        finished.append(reduce(Trace.merged, traces))
    return finished


def _failure(ranks: Ranks, origin: Origin) -> Failure:
    """The failure of the first case."""
    failure = failure_of(ranks)
    if failure is None:
        msg = f"case {origin.case} on {origin.backend} did not end, and a later case in its processes failed"
        raise InfrastructureError(msg)
    if failure.origin:
        require_answer(failure, origin)
    versions = run_folder.versions(ranks.folders[0], failure.rank)
    return dataclasses.replace(failure, environment=versions, origin=origin)
