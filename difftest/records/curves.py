"""The loss curves of some cases, read from the campaigns' lines: those alone, of however many there are."""

import os
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from difftest.judge.losses import Losses
from difftest.records.columns import END
from difftest.records.corpus import Corpus
from difftest.records.disk import open_plain
from difftest.records.index import FilePart, parts
from difftest.records.observation import Observation, read_observation


class Curve(NamedTuple):
    """The losses of one run."""

    side: str
    backend: str
    losses: Losses


def curves(corpus: Corpus, cases: Collection[str]) -> Mapping[str, tuple[Curve, ...]]:
    """The curves of each of some cases that has any: those of the campaign that ran it last."""
    last = dict[str, tuple[str, dict[str, Curve]]]()
    for file in corpus.files_of_lines() if cases else ():
        for run in (run for part in parts(file) for run in _lines(part, cases)):
            if not run.losses.values:
                continue
            campaign, own = last.get(run.case, ("", {}))
            if campaign != run.campaign:
                campaign, own = run.campaign, {}
            last[run.case] = (campaign, own | {run.backend: Curve(run.side, run.backend, run.losses)})
    return {case: tuple(own.values()) for case, (_, own) in last.items()}


def _lines(part: FilePart, cases: Collection[str]) -> Iterator[Observation]:
    """The readable lines of a part about some cases; of an indexed part no other line is decoded."""
    if not part.index:
        runs = (line.run for line in part.lines)
        yield from (run for run in runs if isinstance(run, Observation) and run.case in cases)
        return
    columns = part.columns({END, "case"})
    ends = columns.numbers(END)
    starts = np.concatenate([[0], ends[:-1]])
    with os.fdopen(open_plain(part.file, os.O_RDONLY), "rb") as opened:
        for number in np.flatnonzero(columns.texts("case").among(cases)).tolist():
            opened.seek(part.start + int(starts[number]))
            text = opened.read(int(ends[number] - starts[number]))
            yield read_observation(text, f"{part.file}, byte {part.start + int(starts[number])}")
