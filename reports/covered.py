"""The coverage of a report: how much was reached of what can be, by side, by night, and what was not."""

from collections.abc import Iterable, Iterator

import pandas as pd

from difftest.records.coverage import Coverage, together
from difftest.records.lacks import SupportTable
from difftest.records.totals import UNKNOWN, Cut, Entries, Unreached, cuts, totals, unreached
from reports.frame import Table
from reports.tables import Section

COVERAGE = "Coverage"
"""The title of `summary`."""

NOT_REACHED = "Not reached"
"""The title of `not_reached`."""

BLIND = "Blind shares"
BLIND_NOTE = "In which part of a backend's cases all that a check may report would be called known."
"""The title of `blind`, and what it says."""

EVERYWHERE = "on each side"

MOST_REASONS = 4
"""How many reasons of each kind of thing are shown at a glance, beside a line for two others or more."""

MOST_NAMES = 12
"""How many operators of a row without any are named; `difftest coverage --json` names all."""


def summary(coverage: Coverage, entries: Entries = UNKNOWN) -> pd.DataFrame:
    """How many of each kind were reached of how many that there are, on any side and by side."""
    rows = [
        {
            "what": total.what,
            "there are": total.reachable,
            "reached": total.reached,
            **total.by_side,
            EVERYWHERE: total.everywhere,
        }
        for total in totals(coverage, entries)
    ]
    return pd.DataFrame(rows).astype(dict.fromkeys(["there are", *coverage.sides(), EVERYWHERE], "Int64"))


def by_cut(coverage: Coverage) -> pd.DataFrame:
    """Operators by side and dtype, forward by how their operands were cut."""
    rows = [cut._asdict() | {"regimes": ", ".join(cut.regimes)} for cut in cuts(coverage)]
    return pd.DataFrame(rows, columns=list(Cut._fields))


def by_night(t: Table, entries: Entries = UNKNOWN) -> pd.DataFrame:
    """How much each campaign reached, the last one last: the trend of nights."""
    rows = []
    for name in (str(name) for name in t.began.index):
        coverage = t.coverage[name]
        reached = {total.what: total.reached for total in totals(coverage, entries)}
        rows.append({"campaign": name, "began": f"{t.began[name]:%Y-%m-%d %H:%M}", **reached})
    return pd.DataFrame(rows)


def not_reached(coverage: Coverage, lacks: SupportTable, entries: Entries = UNKNOWN) -> pd.DataFrame:
    """What no side reached, by reason, with the first names."""
    rows = [
        {"what": lacking.what, "reason": lacking.reason, "number": len(lacking.names), "names": _few(lacking)}
        for lacking in unreached(coverage, lacks, entries)
    ]
    return pd.DataFrame(rows, columns=["what", "reason", "number", "names"])


def blind(coverage: Coverage) -> pd.DataFrame:
    """The blind shares in percent, of every backend and check that has one."""
    rows = [
        {"backend": row.backend, "check": row.check, "blind %": round(100 * row.share, 1), "cases": row.cases}
        for row in coverage.blind.rows()
        if row.share
    ]
    return pd.DataFrame(rows, columns=["backend", "check", "blind %", "cases"])


def sections(t: Table, entries: Entries = UNKNOWN) -> Iterator[Section]:
    """The tables with their titles; none where nothing was recorded, as by earlier versions."""
    coverage = together(t.coverage.values())
    if not coverage.sides():
        return
    compared = "What comparisons with a verdict reached"
    dispatched = f"{compared}, as each side's dispatcher received it. A dash stands for what is not counted."
    yield Section(COVERAGE, dispatched, summary(coverage, entries))
    forward = "Operators forward, by how their operands were sharded."
    yield Section("Coverage by side and dtype", forward, by_cut(coverage))
    yield Section("Coverage by campaign", f"{compared}.", by_night(t, entries))
    yield Section(
        NOT_REACHED,
        "What no side reached, and why; `difftest coverage --json` names all.",
        not_reached(coverage, t.lacks, entries),
    )
    if len(table := blind(coverage)):
        yield Section(BLIND, BLIND_NOTE, table)


def at_a_glance(shown: Iterable[Section]) -> Iterator[Section]:
    """The tables of `sections` that nobody has to open, without names and with the main reasons alone."""
    for section in shown:
        if section.title == COVERAGE:
            yield _reached(section)
        if section.title == NOT_REACHED:
            note = "What no side reached, and why; all reasons, with names, are among all numbers."
            yield Section(section.title, note, _main_reasons(section.table))


def _reached(section: Section) -> Section:
    """The rows of what was reached; what was not is named in the note."""
    nothing = section.table["reached"] == 0
    names = "; ".join(section.table.loc[nothing, "what"])
    note = f"{section.note} Not reached at all: {names}." if names else section.note
    return Section(section.title, note, section.table[~nothing])


def _main_reasons(table: pd.DataFrame) -> pd.DataFrame:
    """The first reasons of each kind of thing, and how many there are for the others together."""
    rows = list[tuple[str, str, int]]()
    for what, own in table.groupby("what", sort=False):
        shown = MOST_REASONS if len(own) > MOST_REASONS + 1 else len(own)
        first, others = own[:shown], own[shown:]
        rows += zip(first["what"], first["reason"], first["number"], strict=True)
        if len(others):
            rows.append((str(what), f"{len(others)} other reasons", int(others["number"].sum())))
    return pd.DataFrame(rows, columns=["what", "reason", "number"])


def _few(one: Unreached) -> str:
    """The first of the names that users of torch know, and how many more there are."""
    public = [name for name in one.names if not name.startswith("_")][:MOST_NAMES]
    more = len(one.names) - len(public)
    return ", ".join(
        (*public, *([f"{more} more" if public else f"{more} internal operators"] if more else []))
    )
