"""One rank's result as files in its run's folder: how it gets from the process that trained to the one that waits."""

import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec

from difftest.errors import InfrastructureError, UsageError
from difftest.judge.outcome import Outcome
from difftest.records import traces

MACHINE_STATUS = 75
"""What a rank exits with that the machine failed, not the framework: `EX_TEMPFAIL` of sysexits.h."""

WHERE_SIGNAL = signal.SIGUSR1
"""Makes a rank leave its Python frames in its log, and go on."""


def write(folder: Path, rank: int, outcome: Outcome) -> None:
    """Leaves `outcome` in `folder`, whole or not at all."""
    traces.save(folder / f"rank{rank}", outcome)


def read(folder: Path, rank: int) -> Outcome | None:
    """What `write` left, or None when the rank wrote nothing. `InfrastructureError` when it is damaged: no framework touches it."""
    try:
        return traces.load(folder / f"rank{rank}")
    except UsageError as error:
        msg = f"what rank {rank} left is damaged: {error}"
        raise InfrastructureError(msg) from error


def tell_versions(folder: Path, rank: int, versions: Mapping[str, str]) -> None:
    """Leaves what a rank runs with, before it does anything: who dies can say no more, and what it died of is told by its versions."""
    (folder / f"rank{rank}.versions").write_bytes(msgspec.json.encode(versions))


def versions(folder: Path, rank: int) -> Mapping[str, str]:
    """What `tell_versions` left; nothing where the rank did not come so far."""
    file = folder / f"rank{rank}.versions"
    return msgspec.json.decode((file.read_bytes() if file.exists() else b"") or b"{}", type=dict[str, str])
