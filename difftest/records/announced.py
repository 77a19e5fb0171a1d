"""Which findings are new: those that a campaign must announce, or has announced today.

A finding is new to the campaign that made it. It stays so after the campaign's command has announced it, so
that a job which failed for it fails again when it is run again. It is known from a run on a later day (UTC)
on, or once somebody acknowledges it. A clock that is set back makes nothing known.
"""

from collections.abc import Iterable
from datetime import date

import msgspec

from difftest.records.corpus import Corpus
from difftest.records.finding import Finding
from difftest.records.resume import is_running


def new_findings(corpus: Corpus, campaign: str) -> tuple[Finding, ...]:
    """The findings that are new to `campaign`, sorted by fingerprint.

    They are its own, and those of campaigns that ended without announcing them: these become its own, so that
    no other campaign announces them too.
    """
    own = []
    with corpus.locked():
        for finding in corpus.findings():
            if finding.new_in is None:
                continue
            finder, index = finding.new_in
            if finder == campaign:
                own.append(finding)
            elif not finding.announced and not is_running(corpus, finder):
                own.append(msgspec.structs.replace(finding, new_in=(campaign, index)))
                corpus.put(own[-1])
    return tuple(own)


def mark_announced(corpus: Corpus, fingerprints: Iterable[str], today: date) -> None:
    """Records that these findings were announced today; the first such day of each counts."""
    for fingerprint in fingerprints:
        with corpus.locked():
            finding = corpus.finding(fingerprint)
            if finding.new_in is not None and not finding.announced:
                corpus.put(msgspec.structs.replace(finding, announced=today.isoformat()))


def expire(corpus: Corpus, today: date) -> None:
    """Makes known what was announced before today."""
    with corpus.locked():
        for finding in corpus.findings():
            if finding.new_in is not None and "" < finding.announced < today.isoformat():
                corpus.put(msgspec.structs.replace(finding, new_in=None))


def acknowledge(corpus: Corpus, fingerprints: Iterable[str]) -> tuple[str, ...]:
    """Makes these findings known; returns those that were new."""
    new = []
    for fingerprint in fingerprints:
        with corpus.locked():
            finding = corpus.finding(fingerprint)
            if finding.new_in is not None:
                corpus.put(msgspec.structs.replace(finding, new_in=None))
                new.append(fingerprint)
    return tuple(new)
