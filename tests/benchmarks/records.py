"""How long a large corpus takes to resume and to report, and how much memory.

    python tests/benchmarks/records.py --runs 1000000

It makes a corpus of so many runs in a temporary folder (4 GB and some minutes for a million), starts a
process for each step, prints a line for it, and deletes the corpus. Seconds of CPU time are comparable on a
busy machine; wall time is what a user waits.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from difftest.judge.measured import Measurement  # noqa: E402  found on the path above
from difftest.records.corpus import CORPUS, Corpus  # noqa: E402
from difftest.records.damaged import set_aside  # noqa: E402
from difftest.records.observation import Observation  # noqa: E402
from difftest.records.resume import resumed  # noqa: E402

CAMPAIGN = "seed0-0123abcd"
BACKENDS = ("torch_ddp", "torch_dtensor", "torch_fsdp", "xla_ddp", "xla_spmd", "xla_fsdp")
REFUSING = ("torch_tp", "xla_annotated", "xla_dtensor", "xla_replica", "xla_tp")
RUNS_A_CASE = 1 + len(BACKENDS)
TENSORS = 10
FINDINGS = 20
DIVERGING = 5
"""One case in so many diverges."""

MILLION = 1_000_000
MOST_PAGE_MEGABYTES = 3
"""The greatest page of a night of 5000 cases, which is `--runs 35000`."""

TARGETS = {"resume": (10, 500), "report": (60, 2000)}
"""The most seconds and megabytes for a million runs."""


def cases(number: int) -> Iterator[list[Observation]]:
    """The lines of as many cases, with what real ones vary in."""
    from sample_findings import VERSIONS, an_observation  # noqa: PLC0415  imports reports, which a step must not

    environment = VERSIONS | {f"option{n}": "a value as backends report it" for n in range(12)}
    random = np.random.default_rng(0)
    reason: dict[str, Any] = {"verdict": "unsupported", "reason": "the layout shards a dim twice", "runs": 12}
    for index in range(number):
        case = f"{random.integers(2**48):012x}"
        shared: dict[str, Any] = {
            "campaign": CAMPAIGN,
            "case": case,
            "path": f"path{index % 8}",
            "world_size": 2 + index % 7,
        }
        apart: dict[str, Any] = {"verdict": "diverge", "fingerprints": (fingerprint(index % FINDINGS),)}
        yield [
            an_observation(index, "oracle", "oracle", side="oracle", runs=12, environment=VERSIONS, **shared),
            *(
                an_observation(
                    index,
                    backend,
                    runs=12,
                    measurements=measurements(random),
                    environment=environment,
                    **shared,
                    **(apart if not index % DIVERGING and backend == "xla_spmd" else {}),
                )
                for backend in BACKENDS
            ),
            *(an_observation(index, backend, **reason, **shared) for backend in REFUSING),
        ]


def fingerprint(number: int) -> str:
    """The fingerprint of one of the findings."""
    return f"xla_spmd-loss-mismatch-{number:08x}"


def measurements(random: np.random.Generator) -> tuple[Measurement, ...]:
    """What is measured of a run, with other digits in each."""
    return tuple(
        Measurement(
            stage=("forward", "backward", "update")[n % 3],
            tensor=f"{n}.weight",
            step=n % 2,
            elements=64 * (n + 1),
            differing=0,
            error=error,
            greatest=error * 3,
            scale=scale,
            floor=floor,
            ratio=error / floor,
            other_error=other,
        )
        for n, (error, scale, floor, other) in enumerate(random.random((TENSORS, 4)).tolist())
    )


def make(out: Path, runs: int) -> None:
    """Writes the corpus, case by case as a campaign does, but without waiting for the disk each time."""
    from sample_findings import a_finding  # noqa: PLC0415
    from samples import a_case  # noqa: PLC0415

    corpus = Corpus(out / CORPUS)
    corpus.prepare()
    for number in range(FINDINGS):
        corpus.save(a_finding(fingerprint=fingerprint(number), case="0" * 12), a_case())
    with corpus.lines(CAMPAIGN).open("wb") as lines:
        encoder = msgspec.json.Encoder()
        for case in cases(-(-runs // RUNS_A_CASE)):
            lines.write(encoder.encode_lines(case))


def resume(out: Path) -> int:
    """What `difftest run` does before its first case."""
    corpus = Corpus(out / CORPUS)
    corpus.prepare()
    set_aside(corpus)
    with resumed(corpus, CAMPAIGN) as recorded:
        return len(recorded.cases)


def report(out: Path) -> int:
    """What `difftest report` does."""
    from reports.write import write  # noqa: PLC0415  its imports are part of what is measured

    set_aside(Corpus(out / CORPUS))
    return sum(file.stat().st_size for file in write(out))


STEPS: dict[str, Callable[[Path], int]] = {"resume": resume, "report": report}


def measured(step: str, out: Path) -> dict[str, float]:
    """Wall and CPU seconds, and the greatest resident memory in MB, of a step in a process of its own."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, __file__, "--step", step, "--out", str(out)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return {
        "wall": time.monotonic() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1000,
    }


def main() -> None:
    """Runs the steps and prints their figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=MILLION)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        STEPS[arguments.step](arguments.out)
        return
    from reports.formats.html import FILENAME  # noqa: PLC0415  imports reports, which a step must not

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "runs"
        make(out, arguments.runs)
        lines = Corpus(out / CORPUS).lines(CAMPAIGN)
        size = f"{arguments.runs} runs, {lines.stat().st_size / 1e9:.2f} GB of lines"
        click.echo(f"{size}, {os.cpu_count()} CPUs with a load of {os.getloadavg()[0]:.1f}")
        steps = {"resume without an index": "resume", "resume after a kill": "resume", "resume": "resume"}
        for name, step in (steps | {"report": "report"}).items():
            if "kill" in name:
                lines.touch()  # the parts are verified again, as if somebody had written to the lines
            click.echo(f"{name}: {in_words(measured(step, out), *TARGETS[step])}")
        page = (out / FILENAME).stat().st_size / 1e6
        click.echo(f"{FILENAME}: {page:.2f} MB; a night may have {MOST_PAGE_MEGABYTES} MB")


def in_words(figures: dict[str, float], seconds: float, megabytes: float) -> str:
    """The figures of a step beside what a million runs may take."""
    words = f"{figures['wall']:.1f} s, {figures['cpu']:.1f} s of CPU time, {figures['megabytes']:.0f} MB"
    return f"{words}; a million runs may take {seconds} s and {megabytes} MB"


if __name__ == "__main__":
    main()
