"""The files of a bundle's runs: `runs/<number>.{json,npz}`, whose digests their lines have."""

import hashlib
from pathlib import Path

from difftest.ground.errors import UsageError
from difftest.judge.outcome import Outcome
from difftest.records import traces
from difftest.records.bundle_lines import LINES, RunLine
from difftest.records.disk import sync_file, sync_folder

RUNS = "runs"


def save(root: Path, number: int, outcome: Outcome) -> dict[str, str]:
    """Writes the files of a run; their digests by suffix."""
    stem = root / RUNS / f"{number}"
    traces.save(stem, outcome)
    files = sorted(stem.parent.glob(f"{number}.*"))
    for file in files:
        sync_file(file)
    sync_folder(stem.parent)
    return {file.suffix[1:]: _digest(file) for file in files}


def remove(root: Path, run: RunLine) -> None:
    """Removes the files of a run."""
    for suffix in run.digests:
        (root / RUNS / f"{run.number}.{suffix}").unlink()


def outcome_of(root: Path, run: RunLine) -> Outcome:
    """The outcome of a run; `UsageError` where its files are not those that its line describes."""
    stem = root / RUNS / f"{run.number}"
    for suffix, digest in run.digests.items():
        file = stem.with_name(f"{run.number}.{suffix}")
        if not file.is_file() or file.stat().st_size > traces.MOST_BYTES or _digest(file) != digest:
            msg = f"{file} is missing or was changed: it does not have the digest that {LINES} gives it"
            raise UsageError(msg)
    outcome = traces.load(stem) if "json" in run.digests else None
    if outcome is None:
        msg = f"run {run.number} of {root} has no result"
        raise UsageError(msg)
    return outcome


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
