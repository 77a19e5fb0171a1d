"""What a draft issue quotes besides the finding: its measurement, versions, environment and files.

A corpus may have a limited number of drafts a day.
"""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from difftest.cases.case import Case
from difftest.ground import installed
from difftest.ground.clock import utc_today
from difftest.judge.measured import Measurement
from difftest.records.corpus import ARTIFACTS, DRAFT, Corpus
from difftest.records.finding import Finding

MOST_A_DAY = 5
HERE = "where this was drafted"
COLLECT_SECONDS = 120.0
MOST_GRAPH = 10_000
"""The most characters of a graph that is quoted; a longer one is attached alone."""


def limit_reached(folder: Path, most: int) -> str | None:
    """Why no more than the other drafts of the corpus may be written today (UTC); None if one more may.

    `folder` is the finding's, and a draft's day is the one on which its file was last written.
    """
    today = utc_today()
    others = (file for file in folder.parent.glob(f"*/{DRAFT}") if file.parent != folder)
    count = sum(datetime.fromtimestamp(file.stat().st_mtime, UTC).date() == today for file in others)
    if count < most:
        return None
    drafted = "1 finding of this corpus was" if count == 1 else f"{count} findings of this corpus were"
    return f"{drafted} drafted today, and {most} a day are allowed"


def measurement_of(corpus: Corpus, finding: Finding) -> Measurement | None:
    """The diverging tensor's measurement in the finding's own run; None if nothing was measured."""
    for run in corpus.observations():
        if (
            run.case == finding.case
            and run.backend == finding.divergence.backend
            and finding.fingerprint in run.fingerprints
        ):
            place = (finding.divergence.stage, finding.divergence.tensor)
            return next((m for m in run.measurements if (m.stage, m.tensor) == place), None)
    return None


def versions(finding: Finding, case: Case) -> tuple[tuple[str, str], ...]:
    """Versions by package: those that the finding's run reported, for other packages those installed here.

    The latter need not be what ran, and their names say so.
    """
    from workers.backends import profile

    run = "in the run" if case.id == finding.case else "in the original case's run"
    reported = tuple(
        (f"{name} ({run})", value) for name, value in sorted(finding.environment.items()) if value.strip()
    )
    here = tuple(
        (f"{name} ({HERE})", installed.version(name) or "not installed")
        for name in installed.COMPUTING
        if name not in finding.environment
    )
    on_pjrt = profile(finding.divergence.backend).on_pjrt
    device = finding.environment.get("device") if on_pjrt else None
    return (*reported, *here, *((("PJRT device", device),) if device else ()))


def collect_env(python: str) -> str:
    """The output of `torch.utils.collect_env` with `python`, or why there is none."""
    try:
        done = subprocess.run(  # noqa: S603  that of the finding's environment
            [python, "-P", "-m", "torch.utils.collect_env"],
            capture_output=True,
            text=True,
            check=False,
            timeout=COLLECT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"collect_env did not run: {error}"
    if done.returncode == 0:
        return done.stdout
    return f"collect_env failed: {done.stderr.strip().splitlines()[-1:]}"


def artifacts(folder: Path) -> tuple[str, ...]:
    """The files in a finding's folder of artifacts, as paths relative to the finding's `folder`, sorted."""
    files = (file for file in (folder / ARTIFACTS).glob("*") if file.is_file())
    return tuple(sorted(f"{ARTIFACTS}/{file.name}" for file in files))


def graph(folder: Path, files: tuple[str, ...]) -> str:
    """The last of the kept graphs as StableHLO, if it is short enough to be read; else empty."""
    kept = [folder / name for name in files if name.endswith(".stablehlo.txt")]
    text = kept[-1].read_text(errors="replace") if kept else ""
    return text if len(text) <= MOST_GRAPH else ""
