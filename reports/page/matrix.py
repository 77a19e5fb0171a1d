"""Heat maps: where findings are, by path and backend, and by mesh and backend."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from difftest.findings.standing import Standing, standing
from difftest.ground.counted import counted
from difftest.records.comparisons import Comparisons, Counts
from difftest.records.completeness import why
from reports import tables
from reports.page import spoken
from reports.report import Report

_SIZE = re.compile(r"=(\d+)")


class Square(NamedTuple):
    """One cell: its colour's class, its text, its tooltip's words, and the finding that it leads to."""

    kind: str
    text: str
    words: str
    link: str = ""


def of_paths(report: Report) -> dict[str, Any]:
    """The cases of all campaigns as paths by backends."""
    return _map(report, "path", lambda path: path.replace("_", " "), report.frame.all_comparisons)


def of_meshes(report: Report) -> dict[str, Any]:
    """The cases of all campaigns as axes of meshes by backends: meshes of all sizes are one row."""
    return _map(report, "mesh", lambda mesh: _SIZE.sub("", mesh), report.frame.on_meshes)


def of_ranks(report: Report) -> dict[str, Any]:
    """The cases of all campaigns as numbers of ranks by backends."""
    return _map(report, "mesh", ranks, report.frame.on_meshes)


def ranks(mesh: str) -> str:
    """How many ranks a mesh has, in words: `4 ranks` for `dp=2 x tp=2`."""
    number = 1
    for size in _SIZE.findall(mesh):
        number *= int(size)
    return counted(number, "rank")


def _map(
    report: Report, column: str, row_of: Callable[[str], str], comparisons: Comparisons
) -> dict[str, Any]:
    """Rows by backends, with a square for each of both; `idle` are the backends that no row concerns.

    A row has the comparisons whose value in a `column` `row_of` maps to its name. `comparisons` say how those
    values' comparisons ended, also those without a run.
    """
    compared = report.frame.compared[[column, "backend", "verdict", "fingerprint"]]
    names = {value: row_of(str(value)) for value in compared[column].dropna().unique()}
    compared = compared.assign(row=compared[column].astype("object").map(names))
    table = tables.counted(compared, ["row", "backend"])
    counts: dict[tuple[str, str], Any] = {(str(row.row), str(row.backend)): row for row in table.itertuples()}
    ended = dict[tuple[str, str], Counts]()
    for place, each in comparisons.places.items():
        if place.path and place.backend:
            ended.setdefault((row_of(place.path), place.backend), Counts()).include(each)
    needed = {f.fingerprint for f in report.findings if standing(f) is Standing.UNKNOWN}
    diverging = compared[(compared["verdict"] == "diverge") & compared["fingerprint"].notna()]
    own = diverging[diverging["fingerprint"].isin(needed)]
    unknown = Counter(zip(own["row"], own["backend"].astype("str"), strict=True))
    links = dict[tuple[str, str], str]()
    on_page = {finding.fingerprint for finding in report.findings}
    for shown in (own, diverging):  # what needs somebody goes first
        texts = (shown[name].astype("object").tolist() for name in ("row", "backend", "fingerprint"))
        for row, backend, fingerprint in zip(*texts, strict=True):
            if fingerprint in on_page:
                links.setdefault((row, backend), fingerprint)
    places = {*counts, *ended}
    backends = sorted({backend for _, backend in places})

    def square(at: tuple[str, str]) -> Square:
        shown = _square(counts.get(at), ended.get(at, Counts()), unknown[at])
        return shown._replace(words=spoken.sentence(report, shown.words), link=links.get(at, ""))

    rows = sorted({row for row, _ in places}, key=_in_order)
    columns = {backend: [square((row, backend)) for row in rows] for backend in backends}
    busy = [name for name, column in columns.items() if any(each.kind != "none" for each in column)]
    return {
        "backends": [report.spoken(backend) for backend in busy],
        "rows": [(row, [columns[name][at] for name in busy]) for at, row in enumerate(rows)],
        "idle": [report.spoken(backend) for backend in backends if backend not in busy],
    }


def _in_order(row: str) -> tuple[int, int, str]:
    """Sorts numbers of ranks by number, meshes of fewer axes first, and names by name."""
    number = row.partition(" ")[0]
    return int(number) if number.isdecimal() else 0, row.count(" x "), row


def _square(count: Any, ended: Counts, unknown: int) -> Square:  # noqa: ANN401 - a row of itertuples
    """The square of one row on one backend.

    `count` is None where the backend compared no case of the row; `ended` then says why. `unknown`
    comparisons diverge by a finding that needs somebody.
    """
    lost = ended.lost.total() + ended.not_run.total()
    if count is None and not lost:
        reason = f"not supported: {why(ended)}" if ended.unsupported else "no such case was drawn"
        return Square("none", "·", reason)
    if count is None:
        return Square("lost", f"{lost:,}", f"nothing compared: {why(ended)}")
    cases = count.agree + count.diverge + count.inconclusive
    words = f"{counted(cases, 'case')}: {count.agree:,} agree, {count.diverge:,} diverge"
    words += f", {count.inconclusive:,} inconclusive" + (f", {lost:,} lost" if lost else "")
    refused = ended.unsupported.total()
    words += f"; {refused:,} more are not supported" if refused else ""
    if unknown:
        return Square("unknown", f"{count.diverge:,}", f"{words}; {unknown:,} unknown")
    if count.diverge:
        return Square("known", f"{count.diverge:,}", f"{words}; all known")
    if count.inconclusive or lost:
        return Square("doubtful", "?", words)
    return Square("agree", "✓", words)
