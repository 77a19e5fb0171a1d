"""A real campaign in this process, without Ray: with verdicts, evidence for findings and records on disk."""

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from real_runs import each_together

from difftest.campaign.campaign import ORACLE, Campaign
from difftest.campaign.case_run import CaseResult
from difftest.campaign.run import run
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.records.corpus import Corpus
from generators.cases import case_at
from workers import backends
from workers.isolate import sandbox
from workers.isolate.zygotes import Zygote, zygote_with


def warm() -> list[Zygote]:
    """What the ranks of the usual backends are forked from, started."""
    zygotes = [zygote_with(backends.load(name).PRELOAD) for name in (ORACLE, *backends.candidates())]
    for zygote in zygotes:
        zygote.warm()
    return zygotes


def campaign(seed: int, numbers: Sequence[int], workers: int) -> Iterator[CaseResult]:
    """The results of the cases of a seed, on the usual backends; so many runs go on at a time."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder))
        corpus.prepare()
        described = Campaign(
            name="benchmark",
            backends=backends.candidates(),
            execute=lambda case, name, options: sandbox.run(case, name, options=options),
            execute_group=each_together,
            corpus=corpus,
            follows=backends.following(backends.candidates()),
            workers=workers,
            explanation=partial(read_ledger().entry, today=utc_today()),
        )
        for progress in run(described, ((number, case_at(seed, number)) for number in numbers)):
            yield progress.result
