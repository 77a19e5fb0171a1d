"""One run, isolated: every rank is a process forked from a warm zygote, within limits.

The limits are on time without progress, memory and output. Whatever the ranks do - finish, raise, abort,
crash, hang, exceed a limit - the result is an `Outcome`. A fault of the machine itself (the zygote gone, a
full disk, a rank killed from outside, no CPU to be had) raises `InfrastructureError`. The process groups of
the ranks are killed when the run ends.
"""

import dataclasses
from collections.abc import Mapping
from functools import reduce
from pathlib import Path

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
    allowed = allowed or Limits(seconds=deadline * limits.work_factor(options or {}))
    try:
        return _run(case, new_request(case, backend, number), options or {}, allowed, share)
    except OSError as error:
        msg = f"the machine failed case {case.id} on {backend}: {error}"
        raise InfrastructureError(msg) from error


def _run(
    case: Case, origin: Origin, options: Mapping[str, str], allowed: Limits, share: Share | None
) -> Outcome:
    backend = origin.backend
    module = backends.load(backend)
    zygote = zygote_with(module.PRELOAD)
    with own_folder("run") as folder:
        request = {
            "case": case.to_json().decode(),
            "backend": backend,
            "number": origin.number,
            "folder": str(folder),
            "environment": {**module.environment(case), **options},
        }
        ranks = run_ranks(zygote, request, share or range(module.processes(case)), folder, allowed)
        outcome = _outcome(folder, ranks, origin)
        if isinstance(outcome, Failure) and (reason := limits.full_disk(folder)):
            msg = f"case {case.id} failed on {backend} while {reason}"
            raise InfrastructureError(msg)
        return outcome


def _outcome(folder: Path, ranks: Ranks, origin: Origin) -> Outcome:
    ranks.require_ended_by_itself(folder)
    if failure := failure_of(folder, ranks):
        if failure.origin:
            require_answer(failure, origin)
        versions = run_folder.versions(folder, failure.rank)
        return dataclasses.replace(failure, environment=versions, origin=origin)
    outcomes = [run_folder.read(folder, rank) for rank in ranks.expected]
    traces = [outcome for outcome in outcomes if isinstance(outcome, Trace)]
    for trace in traces:
        require_answer(trace, origin)
    return reduce(Trace.merged, traces)
