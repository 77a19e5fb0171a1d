"""One run, isolated: every rank is a process forked from a warm zygote, within limits.

The limits are on time without progress, memory and output. Whatever the ranks do - finish, raise, abort,
crash, hang, exceed a limit - the result is an `Outcome`. A fault of the machine itself (the zygote gone, a
full disk, a rank killed from outside, no CPU to be had) raises `InfrastructureError`. The process groups of
the ranks are killed when the run ends.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path

from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError
from difftest.ground.own_folder import own_folder
from difftest.judge.outcome import Failure, Origin, Outcome, Trace
from workers import backends
from workers.deadlines import DEADLINE_SECONDS
from workers.isolate import limits, own_imports, refused, run_folder
from workers.isolate.answers import new_request, require_answer
from workers.isolate.failures import failure_of, refusal_of
from workers.isolate.limits import RunLimits
from workers.isolate.messages import Work
from workers.isolate.ranks import NodeShare, Ranks, run_ranks
from workers.isolate.zygotes import Zygote, zygote_with


def run(  # noqa: PLR0913  everything but case and backend has a default
    case: Case,
    backend: str,
    *,
    deadline: float = DEADLINE_SECONDS,
    options: Mapping[str, str] | None = None,
    allowed: RunLimits | None = None,
    share: NodeShare | None = None,
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
    allowed: RunLimits,
    share: NodeShare | None = None,
) -> Sequence[Outcome]:
    """Runs cases one after another in the same fresh processes; the outcomes of the first of them.

    These are the traces, and what every rank refused (`workers.isolate.refused`), up to the first other
    failure, and that failure if it counts whatever ran before or nothing did. `requests` has the request for
    each case, with its backend. The first run decides what the processes are; the others must need the same.
    The rest is as in `run`.
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
    allowed: RunLimits,
    share: NodeShare | None,
) -> Sequence[Outcome]:
    backend = requests[0].backend
    module = backends.load(backend)
    zygote = _zygote(module.PRELOAD, cases[0], backend)
    with own_folder("run") as folder:
        folders = run_folder.prepared(folder, len(cases))
        work = Work(
            backends=tuple(origin.backend for origin in requests),
            cases=tuple(case.to_json().decode() for case in cases),
            numbers=tuple(origin.number for origin in requests),
            folders=tuple(map(str, folders)),
            environment={**module.environment(cases[0]), **options},
            directory=str(Path.cwd()),
        )
        ranks = run_ranks(zygote, work, share or range(module.processes(cases[0])), allowed)
        ranks.require_ended_by_itself()
        outcomes = _finished(ranks, cases, requests)
        if (failed := len(outcomes)) < len(cases):
            failure = _failure(ranks, failed, requests[failed])
            if failure is None and not outcomes:
                msg = f"case {cases[0].id} did not end on {backend}, and a later one in its processes failed"
                raise InfrastructureError(msg)
            if failure and (refused.is_refusal(failure, cases[failed]) or not outcomes):
                outcomes.append(failure)
        if isinstance(outcomes[-1], Failure) and (reason := limits.full_disk(folder)):
            msg = f"case {cases[len(outcomes) - 1].id} failed on {backend} while {reason}"
            raise InfrastructureError(msg)
        return outcomes


_unfit = set[tuple[str, ...]]()
"""What users' models import that no zygote can: it starts threads, or uses a device."""


def _zygote(preload: tuple[str, ...], case: Case, backend: str) -> Zygote:
    """The process from which the ranks are forked: with what the user's model imports, where it has one."""
    own = own_imports.preload(case, backend)
    if own and own not in _unfit:
        zygote = zygote_with((*preload, *own))
        try:
            zygote.warm()
        except InfrastructureError:
            _unfit.add(own)
        else:
            return zygote
    return zygote_with(preload)


def _finished(ranks: Ranks, cases: Sequence[Case], requests: Sequence[Origin]) -> list[Outcome]:
    """The outcomes of the first cases that every rank finished or refused, until one exceeded a limit."""
    finished = list[Outcome]()
    for index in range(ranks.case() if ranks.excess else len(requests)):
        if refused.by_all(ranks.folders[index], ranks.expected, cases[index]):
            failure = refusal_of(ranks.folders[index], ranks.expected)
            finished.append(_answered(failure, ranks.folders[index], requests[index]))
            continue
        if not all(ranks.finished(rank, index) for rank in ranks.expected):
            break
        outcomes = [run_folder.read(ranks.folders[index], rank) for rank in ranks.expected]
        traces = [outcome for outcome in outcomes if isinstance(outcome, Trace)]
        for trace in traces:
            require_answer(trace, requests[index])
        finished.append(reduce(Trace.merged, traces))
    return finished


def _failure(ranks: Ranks, case: int, origin: Origin) -> Failure | None:
    """The failure of a case, by its index; None if none is known of it."""
    failure = failure_of(ranks, case)
    return _answered(failure, ranks.folders[case], origin) if failure else None


def _answered(failure: Failure, folder: Path, origin: Origin) -> Failure:
    """The failure, which must answer the request, with the versions of its rank."""
    if failure.origin:
        require_answer(failure, origin)
    return dataclasses.replace(failure, environment=run_folder.versions(folder, failure.rank), origin=origin)
