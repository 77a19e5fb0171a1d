"""Running one case again, as often as requested, and counting the outcomes."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from difftest.campaign.again import takes_two
from difftest.campaign.campaign import ORACLE
from difftest.campaign.case_run import MORE_SAMPLES, confirmed
from difftest.commands.service.targets import CaseTarget
from difftest.errors import UsageError
from difftest.judge.comparator import Comparison, compare
from difftest.plugins import IN, plain


def repeats(
    subject: CaseTarget, backends: tuple[str, ...], times: int, load: int
) -> Iterator[dict[str, Any]]:
    """Runs a case `times` times on each backend, in fresh processes on this machine.

    Yields a JSON object for each run. The backends are `backends`, else the finding's, else all. With `load`
    busy processes on the machine, deadlines grow with each run's smaller share of it. `UsageError` for a
    backend that runs in an environment of its own.
    """
    from workers.backends import candidates
    from workers.deadlines import DEADLINE_SECONDS
    from workers.isolate import sandbox

    deadline = DEADLINE_SECONDS * (1 + load / (os.cpu_count() or 1))
    names = backends or ((subject.finding.divergence.backend,) if subject.finding else ())
    if elsewhere := [name for name in names if IN in name]:
        msg = (
            f"{elsewhere[0]} runs in an environment of its own, but `difftest replay` uses this one; "
            f"give --backends {plain(elsewhere[0])}"
        )
        raise UsageError(msg)
    chosen = candidates(names)
    execute = partial(sandbox.run, subject.case, deadline=deadline)
    truth, in_doubt = execute(ORACLE), cache(partial(execute, ORACLE, options=MORE_SAMPLES))
    twice = subject.finding is not None and takes_two(subject.finding.divergence.check)
    for _ in range(times):
        for name, backend in chosen.items():
            reason = backend.unsupported(subject.case)
            if reason:
                yield {"backend": name, "verdict": "unsupported", "reason": reason, "fingerprints": []}
            else:
                actual, again = execute(name), execute(name) if twice else None
                compared = partial(compare, subject.case, name, backend.SIDE, actual=actual, again=again)
                yield _described(name, confirmed(compared, truth, in_doubt))


def rates(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """By backend, how often each outcome came, the most frequent first.

    An outcome is a fingerprint, or the verdict if there is none.
    """
    counted: dict[str, Counter[str]] = {}
    for result in results:
        outcome = (*result["fingerprints"], result["verdict"])[0]
        counted.setdefault(result["backend"], Counter())[outcome] += 1
    return {backend: dict(counter.most_common()) for backend, counter in counted.items()}


def _described(backend: str, comparison: Comparison) -> dict[str, Any]:
    first = comparison.divergences[:1]
    return {
        "backend": backend,
        "verdict": comparison.verdict,
        "reason": comparison.reason or "".join(d.detail for d in first),
        "fingerprints": [d.fingerprint for d in first],
        "ratio": max((m.ratio for m in comparison.measurements), default=None),
    }
