"""What a user chose that makes a green result mean less than usual: limits, words, and ledgers."""

from collections.abc import Iterator

from difftest.findings.ledger import LEDGER_FILE, Entry, Ledger
from difftest.jobs.ask.request import Request
from difftest.records.completeness import LEAST_COMPARED, MOST_INCONCLUSIVE

FAILING = frozenset({"new", "any"})
"""The words of `--fail-on` with which a new finding fails a campaign."""


def unusual(request: Request, ledger: Ledger) -> tuple[str, ...]:
    """Each choice that lets more pass than usual, in a few words."""
    return tuple(_choices(request, ledger))


def _choices(request: Request, ledger: Ledger) -> Iterator[str]:
    if request.least_compared < LEAST_COMPARED:
        yield f"--least-compared is {request.least_compared:g}, usually {LEAST_COMPARED:g}"
    if request.most_inconclusive > MOST_INCONCLUSIVE:
        yield f"--most-inconclusive is {request.most_inconclusive:g}, usually {MOST_INCONCLUSIVE:g}"
    if FAILING.isdisjoint(request.fail_on):
        yield f"--fail-on is {','.join(request.fail_on)}, so that no finding fails it"
    if request.one_side:
        yield "one side is enough (--one-side)"
    if request.ledger.resolve() != LEDGER_FILE.resolve():
        yield f"the ledger is {request.ledger}"
    if broad := [entry.fingerprint for entry in ledger.entries if _knows_everything(entry)]:
        yield f"whatever a backend shows is known by the ledger's {broad[0]!r}"


def _knows_everything(entry: Entry) -> bool:
    """Whether an entry is about whatever a backend shows."""
    check = entry.fingerprint.removeprefix(entry.backend).strip("-*")
    texts = {entry.cause, entry.nature}
    return not check and texts == {"*"} and not (entry.what or entry.where or entry.operators)
