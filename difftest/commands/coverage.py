"""`difftest coverage`: what was compared with a verdict, and what was not reached, and why."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click

from difftest.commands import Group
from difftest.ground.errors import UsageError
from difftest.jobs.ask.options import Json, own_options
from difftest.jobs.ask.targets import read_corpus
from difftest.jobs.campaign.reachable_entries import reachable_entries
from difftest.jobs.screen.output import print_json
from difftest.records.blind import lines
from difftest.records.corpus import Corpus
from difftest.records.coverage import COUNTED, WHAT, Coverage
from difftest.records.index import parts
from difftest.records.lacks import COUNTED as LACKS
from difftest.records.lacks import SupportTable
from difftest.records.totals import Total, Unreached, cuts, totals, unreached

WIDTH = 70
"""Characters of a line of names."""

MOST_REASONS = 7
"""How many reasons are printed for each kind of thing, so that all fit on a screen."""


GROUP = Group.REPORT


@click.command("coverage")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@own_options
def command(directory: Path, *, as_json: Json) -> None:
    """Print which operators, shardings and dtypes the campaigns in DIR have run, and which they have not.

    Operators are counted forward and backward, by the sharding of their operands, dtype, regime and side.
    --json lists all of them.
    """
    corpus, _ = read_corpus(directory)
    if not corpus.files_of_lines():
        msg = f"{str(directory)!r} holds no campaign; give the folder of one, such as runs/first"
        raise UsageError(msg)
    coverage, lacks = _counted(corpus)
    if as_json:
        print_json(_described(coverage, lacks))
        return
    entries = reachable_entries()
    click.echo("\n".join(_lines(list(totals(coverage, entries)), coverage.sides())))
    click.echo("\noperators forward by how their operands were sharded, and backward:")
    for cut in cuts(coverage):
        counts = f"{cut.whole} whole, {cut.even} even, {cut.uneven} uneven, {cut.empty} empty"
        regimes = ", ".join(cut.regimes)
        click.echo(f"  {cut.side} {cut.dtype}: {counts}; {cut.backward} backward; regimes {regimes}")
    if shares := list(lines(coverage.blind.rows())):
        click.echo("\nall that a check may report would be called known in")
        click.echo("\n".join(f"  {line}" for line in shares))
    for what, rows in groupby(unreached(coverage, lacks, entries), key=lambda one: one.what):
        click.echo("\n".join(_not_reached(what, list(rows))))


def _counted(corpus: Corpus) -> tuple[Coverage, SupportTable]:
    """What all campaigns of a corpus covered, and what backends lack."""
    coverage, lacks = Coverage(), SupportTable()
    for part in (part for file in corpus.files_of_lines() for part in parts(file)):
        columns = part.columns({*COUNTED, *LACKS, "purpose"})
        own = columns.where(columns.texts("purpose").among({"campaign"}))
        coverage.add(own)
        lacks.add(own)
    return coverage, lacks


def _lines(rows: list[Total], sides: tuple[str, ...]) -> Iterator[str]:
    """The totals as aligned columns."""
    cells = [
        (
            row.what,
            _number(row.reachable),
            _number(row.reached),
            *(_number(row.by_side.get(s)) for s in sides),
            _number(row.everywhere),
        )
        for row in rows
    ]
    table = [("compared with a verdict", "there are", "reached", *sides, "on each side"), *cells]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *rest in table:
        numbers = (f"{text:>{width}}" for text, width in zip(rest, widths[1:], strict=True))
        yield "  ".join((f"{first:<{widths[0]}}", *numbers)).rstrip()


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _not_reached(what: str, rows: list[Unreached]) -> Iterator[str]:
    """What was not reached of one kind, by reason, the most first; `rows` are in that order."""
    yield f"\nnot reached of {what}: {sum(len(row.names) for row in rows):,}"
    for one in rows[:MOST_REASONS]:
        yield f"  {len(one.names):5,}  {one.reason}: {_few(one)}"
    if others := rows[MOST_REASONS:]:
        names = sum(len(one.names) for one in others)
        yield f"  {names:5,}  for {len(others)} other reasons, which --json has"


def _few(one: Unreached) -> str:
    """As many names as fit into a line."""
    text = ", ".join(one.names)
    return text if len(text) <= WIDTH else f"{text[:WIDTH].rpartition(', ')[0]}, ..."


def _described(coverage: Coverage, lacks: SupportTable) -> dict[str, object]:
    """Everything that is counted, for programs."""
    entries = reachable_entries()
    return {
        "totals": [total._asdict() for total in totals(coverage, entries)],
        "cuts": [cut._asdict() for cut in cuts(coverage)],
        "blind": [row._asdict() for row in coverage.blind.rows()],
        "cells": {
            what: [{**cell._asdict(), "comparisons": n} for cell, n in sorted(coverage.cells[what].items())]
            for what in WHAT
        },
        "parts": [{**part._asdict(), "comparisons": n} for part, n in sorted(coverage.parts.items())],
        "rules": dict(sorted(coverage.rules.items())),
        "kernels": dict(sorted(coverage.kernels.items())),
        "lowered": dict(sorted(coverage.lowered.items())),
        "unreached": [lacking._asdict() for lacking in unreached(coverage, lacks, entries)],
    }
