"""Makes a bundle smaller that nobody records into any more."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from difftest.cases.case import Case
from difftest.judge.outcome import Trace
from difftest.records import bundle_lines
from difftest.records.bundle import CASES
from difftest.records.bundle_lines import LINES, RunLine
from difftest.records.bundle_runs import outcome_of, remove, save
from difftest.records.case_files import read_case
from difftest.records.condensed import condensed
from difftest.records.disk import replace_file


def condense(root: Path, oracle: str) -> None:
    """Makes a bundle smaller that nobody records into any more: see `difftest.records.condensed`.

    The oracle's repetitions go too, which are alike, and its runs of cases that no backend ran: whoever
    compares these cases has runs of them, and an oracle beside those.
    """
    runs = {run.number: run for run in bundle_lines.lines(root)}
    of_cases = defaultdict[str, list[RunLine]](list)
    for run in runs.values():
        of_cases[run.case].append(run)
    for case, ran in of_cases.items():
        plain = [run for run in ran if run.backend == oracle and not run.options]
        alone = {run.backend for run in ran} == {oracle} and bundle_lines.requested(root)
        for run in ran if alone else plain[1:]:
            del runs[run.number]
            remove(root, run)
        kept = [run for run in ran if run.number in runs]
        runs |= _condensed(root, read_case(root / CASES / f"{case}.json"), kept, oracle)
    lines = b"".join(msgspec.json.encode(run) + b"\n" for run in runs.values())
    replace_file(root / LINES, lines)


def _condensed(root: Path, case: Case, runs: Sequence[RunLine], oracle: str) -> dict[int, RunLine]:
    """The new lines of a case whose runs were condensed, by number."""
    traced = {run.number: outcome for run in runs if isinstance(outcome := outcome_of(root, run), Trace)}
    truths = sorted((run for run in runs if run.backend == oracle), key=lambda run: len(run.options))
    if not truths or truths[0].options or any(run.number not in traced for run in truths):
        return {}
    numbers = [run.number for run in truths]
    others = {
        run.number: (run.backend, run.side, traced[run.number])
        for run in runs
        if run.number in traced and run.backend != oracle
    }
    smaller = condensed(case, [traced[number] for number in numbers], others)
    if smaller is None:
        return {}
    kept = dict(zip(numbers, smaller[0], strict=True)) | smaller[1]
    lines = {}
    for run in runs:
        if run.number in kept:
            remove(root, run)
            digests = save(root, run.number, kept[run.number])
            lines[run.number] = msgspec.structs.replace(run, digests=digests, beside=numbers[0])
    return lines
