"""Heat maps: where findings are, by path and backend."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from difftest.findings.standing import Standing, standing
from difftest.records.comparisons import Counts, Place
from difftest.records.completeness import why
from reports import tables
from reports.report import Report


class Square(NamedTuple):
    """One cell: the class that colours it, its text, and the words of its tooltip."""

    kind: str
    text: str
    words: str


def of_paths(report: Report) -> dict[str, Any]:
    """The cases of all campaigns as paths by backends."""
    table = tables.agreement(report.frame)
    counts = {(str(row.path), str(row.backend)): row for row in table.itertuples()}
    ended = {(place.path, place.backend): counts for place, counts in _places(report).items()}
    unknown = _unknown(report)
    places = {*counts, *(place for place in ended if all(place))}
    backends, paths = sorted({backend for _, backend in places}), sorted({path for path, _ in places})
    return {
        "backends": [report.spoken(backend) for backend in backends],
        "rows": [
            (
                path.replace("_", " "),
                [
                    _square(
                        counts.get((path, one)),
                        ended.get((path, one), Counts()),
                        unknown[path, one],
                    )
                    for one in backends
                ],
            )
            for path in paths
        ],
    }


def _places(report: Report) -> Mapping[Place, Counts]:
    return report.frame.all_comparisons.places


def _unknown(report: Report) -> Counter[tuple[str, str]]:
    """How many comparisons diverge by a finding that needs somebody, by path and backend."""
    needed = {f.fingerprint for f in report.findings if standing(f) is Standing.UNKNOWN}
    compared = report.frame.compared
    own = compared[(compared["verdict"] == "diverge") & compared["fingerprint"].isin(needed)]
    return Counter(zip(own["path"].astype("str"), own["backend"].astype("str"), strict=True))


def _square(count: Any, ended: Counts, unknown: int) -> Square:  # noqa: ANN401 - a row of itertuples
    """The square of one path on one backend.

    `count` is None where the backend compared and lost no case of the path; `ended` then says why. `unknown`
    comparisons diverge by a finding that needs somebody.
    """
    if count is None:
        reason = f"cannot express it: {why(ended)}" if ended.unsupported else "no case of it was drawn"
        return Square("none", "·", reason)
    if not count.cases:
        return Square("lost", f"{count.lost:,}", f"nothing compared: {why(ended)}")
    words = f"{count.cases:,} cases: {count.agree:,} agree, {count.diverge:,} diverge"
    words += f", {count.inconclusive:,} inconclusive" + (f", {count.lost:,} lost" if count.lost else "")
    if unknown:
        return Square("unknown", f"{count.diverge:,}", f"{words}; {unknown:,} unknown")
    if count.diverge:
        return Square("known", f"{count.diverge:,}", f"{words}; all known")
    if count.inconclusive or count.lost:
        return Square("doubtful", "?", words)
    return Square("agree", "✓", words)
