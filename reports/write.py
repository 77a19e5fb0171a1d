"""Writing a report: built once from the corpus, rendered by each format, renamed into place."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from difftest.findings.ledger import Ledger
from difftest.records.conclusion import Conclusion
from difftest.records.disk import cannot_write, replacing
from difftest.records.totals import UNKNOWN, Entries
from reports.formats import Format, load
from reports.report import Report, build

FORMATS = "reports.formats"
DEFAULT_FORMATS = ("parquet", "summary", "markdown", "html")


def write(  # noqa: PLR0913  commands alone know most of it
    out: Path,
    formats: Iterable[str] = DEFAULT_FORMATS,
    campaign: str = "",
    conclusion: Conclusion | None = None,
    called: Mapping[str, str] = MappingProxyType({}),
    *,
    entries: Entries = UNKNOWN,
    ledger: Ledger | None = None,
) -> list[Path]:
    """Writes the report of the output folder `out` in each of `formats`; returns the files, in that order.

    It is about `campaign`, by default the one that began last. `conclusion` is how far its result can be
    believed; None where the usual limits decide it. `called` is what users call each backend, and
    `entries` are what cases are generated from. The titles of known findings are those of `ledger`, by
    default the project's.

    `UsageError` for an unknown format, a folder without a corpus, a corpus that cannot be read, or a folder
    that cannot be written; `InfrastructureError` where the disk is full.
    """
    chosen = [load(name) for name in dict.fromkeys(formats)]
    report = build(out, campaign, conclusion, called, entries=entries, ledger=ledger)
    return [_write(out / kind.FILENAME, kind, report) for kind in chosen]


def _write(file: Path, kind: Format, report: Report) -> Path:
    try:
        with replacing(file) as opened:
            kind.render(report, opened)
    except OSError as error:
        raise cannot_write(repr(str(file)), error, "give a folder that can be written") from error
    return file
