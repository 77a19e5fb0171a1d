"""The cases that a watch runs on a release beside the scripts: some of a corpus, or of the known faults'."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from typing import TypeAlias

from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.findings.faults import KnownFault
from difftest.ground import plugins
from difftest.jobs.ask.capacity import is_runnable
from difftest.judge.fingerprint import backend_pattern
from difftest.records.corpus import Corpus

Sample: TypeAlias = tuple[Case, str]
"""A case, and the backend on which it runs, without an environment."""


def backends_of(package: str) -> tuple[str, ...]:
    """The backends whose framework is `package`; none for jaxlib, whose scripts run alone."""
    from workers import backends

    names = (name for name in plugins.names(backends.__name__) if name != ORACLE)
    return tuple(name for name in names if package == backends.load(name).FRAMEWORK)


def of_corpus(corpus: Corpus, package: str) -> Iterator[Sample]:
    """The simplest case of each finding on a backend of the package, where this machine can run it."""
    own = backends_of(package)
    for finding in corpus.findings():
        backend, case = plugins.plain(finding.divergence.backend), corpus.simplest(finding.fingerprint)
        if backend in own and is_runnable(case):
            yield case, backend


def of_faults(faults: Sequence[KnownFault], package: str) -> Iterator[Sample]:
    """The first case of each known fault of the package, on the first backend that shows it."""
    own = backends_of(package)
    for fault in faults:
        patterns = [backend_pattern(entry["fingerprint"]) for entry in fault.shows]
        shows = (name for pattern in patterns for name in own if fnmatchcase(name, pattern))
        backend = next(shows, "")
        for example in fault.examples[:1] if backend and fault.needs == package else ():
            case = Case.from_json(example.case)
            if is_runnable(case):
                yield case, backend


def spread(samples: Iterator[Sample], count: int) -> tuple[Sample, ...]:
    """So many of the samples, at even distances; all where there are fewer."""
    every = tuple(samples)
    step = max(1, len(every) // count) if count else 1
    return tuple(islice(every[::step], count))
