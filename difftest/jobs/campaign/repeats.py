"""Running one case again, as often as requested, and counting the outcomes."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from difftest.campaign.again import takes_two
from difftest.campaign.campaign import ORACLE
from difftest.campaign.confirmation import Samples, confirmed
from difftest.cases.case import Case
from difftest.ground.plugins import IN
from difftest.jobs.ask.targets import CaseTarget
from difftest.jobs.campaign.cluster import on_cluster
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Outcome

if TYPE_CHECKING:
    from workers.backends import Backend


def repeats(
    subject: CaseTarget, backends: tuple[str, ...], times: int, load: int
) -> Iterator[dict[str, Any]]:
    """Runs a case `times` times on each backend, in fresh processes on this machine.

    Yields a JSON object for each run. The backends are `backends`, else the finding's, else all. With `load`
    busy processes on the machine, deadlines grow with each run's smaller share of it.
    """
    from workers.backends import candidates
    from workers.deadlines import DEADLINE_SECONDS

    deadline = DEADLINE_SECONDS * (1 + load / (os.cpu_count() or 1))
    names = backends or ((subject.finding.divergence.backend,) if subject.finding else ())
    chosen = candidates(names)
    twice = subject.finding is not None and takes_two(subject.finding.divergence.check)
    with _running(subject.case, chosen, deadline) as execute:
        truth = execute(ORACLE)

        @cache
        def in_doubt(samples: Samples) -> Outcome:
            return execute(ORACLE, options=samples.options)

        for _ in range(times):
            for name, backend in chosen.items():
                reason = backend.unsupported(subject.case)
                if reason:
                    yield {"backend": name, "verdict": "unsupported", "reason": reason, "fingerprints": []}
                else:
                    actual, again = execute(name), execute(name) if twice else None
                    compared = partial(compare, subject.case, name, backend.SIDE, actual=actual, again=again)
                    yield _described(name, confirmed(compared, truth, in_doubt))


@contextmanager
def _running(
    case: Case, backends: "Mapping[str, Backend]", deadline: float
) -> Iterator[Callable[..., Outcome]]:
    """A function that runs the case on a backend, with `options`: here, or on workers elsewhere."""
    from workers.isolate import sandbox

    if not any(IN in name for name in backends):
        yield partial(sandbox.run, case, deadline=deadline)
        return
    with on_cluster(backends, workers=None, deadline=deadline) as cluster:
        yield lambda name, options=None: cluster.execute(case, name, options or {})


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
