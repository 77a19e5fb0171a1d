"""The folder of one case of a run: the files by which a rank reports to the process that waits for it.

A run of several cases has such a folder for each. A rank leaves what can be known of its end as it happens,
because a process that dies can say no more: the versions of its packages in `rankN.versions`, the stage it is
in in `rankN.stage`, its standard error in `rankN.err`, and at the end its result in the files of
`difftest.records.traces`, `rankN.json` first among them.
"""

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from difftest.ground.errors import InfrastructureError, UsageError
from difftest.judge.outcome import Outcome
from difftest.judge.stage import Stage
from difftest.records import traces

MACHINE_STATUS = 75
"""The exit status of a rank that the machine failed, not the framework: `EX_TEMPFAIL` of sysexits.h."""

FRAMES_SIGNAL = signal.SIGUSR1
"""Makes a rank write its Python frames to its log, and continue."""

STAGE_WIDTH = 128
LOG_BYTES = 2**20
"""How much of the end of a rank's standard error is read."""


def prepared(run: Path, cases: int) -> tuple[Path, ...]:
    """The folders of a run's cases, which are made here."""
    folders = tuple(run / f"{index}" for index in range(cases))
    for folder in folders:
        folder.mkdir()
    return folders


def write(folder: Path, rank: int, outcome: Outcome, at: int | None = None) -> None:
    """Writes a rank's `outcome`, whole or not at all; `at` is when it failed, in ns since 1970."""
    traces.save(folder / f"rank{rank}", outcome)
    if at is not None:
        os.utime(_outcome(folder, rank), ns=(at, at))


def read(folder: Path, rank: int) -> Outcome | None:
    """What `write` left; None when the rank wrote nothing.

    Raises `InfrastructureError` when it is damaged, since no framework writes to it.
    """
    try:
        return traces.load(folder / f"rank{rank}")
    except UsageError as error:
        msg = f"what rank {rank} left is damaged: {error}"
        raise InfrastructureError(msg) from error


def failed(folder: Path, rank: int, status: int) -> bool:
    """Whether a rank that ended with exit status `status` left anything else than a trace."""
    return bool(status) or not finished(folder, rank)


def finished(folder: Path, rank: int) -> bool:
    """Whether a rank left a trace."""
    outcome = _outcome(folder, rank)
    return outcome.exists() and not outcome.read_bytes().startswith(b'{"failure"')


def left_failure(folder: Path, rank: int) -> bool:
    """Whether a rank left a failure."""
    return _outcome(folder, rank).exists() and not finished(folder, rank)


def failed_at(folder: Path, rank: int) -> int:
    """When a rank failed, in ns since 1970: when it raised, or when it wrote the last line of its log.

    A rank that crashed wrote what killed it before the others could lose their connection to it.
    """
    left = [file for file in (_outcome(folder, rank), log_file(folder, rank)) if file.exists()]
    return left[0].stat().st_mtime_ns if left else time.time_ns()


def _outcome(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.json"


def began(folder: Path, rank: int) -> bool:
    """Whether a rank has begun the folder's case."""
    return _stage(folder, rank).exists()


def _stage(folder: Path, rank: int) -> Path:
    return folder / f"rank{rank}.stage"


def write_versions(folder: Path, rank: int, versions: Mapping[str, str]) -> None:
    """Writes the versions of a rank's packages, before its first stage: a failure is reported with them."""
    (folder / f"rank{rank}.versions").write_bytes(msgspec.json.encode(versions))


def versions(folder: Path, rank: int) -> Mapping[str, str]:
    """What `write_versions` left; empty where the rank did not get that far."""
    file = folder / f"rank{rank}.versions"
    return msgspec.json.decode((file.read_bytes() if file.exists() else b"") or b"{}", type=dict[str, str])


class LastStages:
    """The last stage that a rank began, in memory and in a file of its case that outlives the process."""

    def __init__(self, rank: int) -> None:
        self.last, self.operator = (Stage.BUILD, 0), ""
        self._rank, self._file = rank, -1

    def begin(self, folder: Path) -> None:
        """Begins the case of this folder."""
        if self._file >= 0:
            os.close(self._file)
        self._file = os.open(_stage(folder, self._rank), os.O_WRONLY | os.O_CREAT)
        self(Stage.BUILD, 0)

    def __call__(self, stage: Stage, step: int, operator: str = "") -> None:
        """Records that `stage` of `step` begins, and which operator of a program; empty for none."""
        self.last, self.operator = (stage, step), operator
        line = f"{stage} {step} {operator}".encode()[:STAGE_WIDTH]
        os.pwrite(self._file, line.ljust(STAGE_WIDTH), 0)


def stage(folder: Path, rank: int) -> tuple[Stage, int]:
    """The last stage that a rank began, with its step.

    The first stage where the rank left none, as on a full disk.
    """
    name, step, _ = _begun(folder, rank)
    return Stage(name or Stage.BUILD), int(step or 0)


def operator(folder: Path, rank: int) -> str:
    """The operator of a program that a rank was running; empty where it was running none."""
    return _begun(folder, rank)[2]


def _begun(folder: Path, rank: int) -> tuple[str, str, str]:
    """What `Stages` recorded last: stage, step and operator."""
    file = _stage(folder, rank)
    words = (file.read_text(errors="replace") if file.exists() else "").split()
    name, step, operator = (*words, "", "", "")[:3]
    return name, step, operator


def log_file(folder: Path, rank: int) -> Path:
    """The file that a rank's standard output and standard error go to."""
    return folder / f"rank{rank}.err"


def log(folder: Path, rank: int) -> str:
    """The last `LOG_BYTES` of a rank's log; empty where it has none."""
    file = log_file(folder, rank)
    if not file.exists():
        return ""
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - LOG_BYTES))
        return opened.read().decode(errors="replace")
