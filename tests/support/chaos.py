"""A campaign whose processes are killed at random moments, and started again until it is complete."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

VICTIMS = ("driver", "raylet", "gcs", "worker", "zygote", "rank")
FATAL = ("driver", "raylet", "gcs")
"""The victims without which a campaign cannot continue."""

SEEN_WITHIN_SECONDS = 60.0
"""How long the next victim is waited for; a machine may take that long to start a rank."""

END_SECONDS = 60.0
"""How long a driver may take to notice that its cluster is dead, to write its reports, and to end."""

ALONE_SECONDS = 5.0
"""How long the processes of a driver may outlive it."""

MARK = "CHAOS_OUT"
"""The environment variable by which the processes of a campaign are recognised."""

INCOMPLETE = 3

BY_RAY = 1
ENDED_BY_RAY = ("Failed to connect to GCS", "Failed to get the system config from raylet because it is dead")
"""The exit status where Ray itself ends a process that connects to a dying GCS or raylet, and its words.

That is C++ code that runs no Python and calls `_Exit`, so difftest cannot end in a status of its own (2.60).
"""

STARTS = "starts or joins Ray"
"""What a start says in the log before it connects."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a campaign writes: its results, and everything that it must not leave behind."""

    out: Path
    temporary: Path

    def environment(self) -> dict[str, str]:
        """The environment variables of the campaign."""
        return {**os.environ, MARK: str(self.out), "TMPDIR": str(self.temporary)}

    def recorded(self) -> bool:
        """Whether the first case is recorded."""
        return any(file.stat().st_size for file in self.out.glob("corpus/observations/*.jsonl"))

    def kill(self) -> None:
        """Kills what is left of the campaign's processes."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def left(self) -> list[str]:
        """What is in the temporary folder."""
        return sorted(str(path.relative_to(self.temporary)) for path in self.temporary.rglob("*"))

    def processes(self) -> Iterator[psutil.Process]:
        """The processes of the campaign that are alive."""
        for process in psutil.process_iter():
            try:
                ours = process.environ().get(MARK) == str(self.out)
            except psutil.Error:  # it has ended, or is not ours
                continue
            if ours and process.is_running():
                yield process


@dataclass(slots=True)
class Chaos:
    """Kills the processes of a campaign until `left` is 0. What it kills, and when, depends on `seed`.

    After a start or a kill it waits for a random time of at most `most_seconds`.
    """

    command: tuple[str, ...]
    most_seconds: float
    seed: int
    left: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311  moments, no secrets

    def complete(self, place: Place) -> None:
        """Starts the campaign again and again until it is complete.

        Asserts that it ends as it should whatever is killed, and that its processes end with it.
        """
        status = INCOMPLETE
        while status:
            self.starts += 1
            driver = start(self.command, place)
            while self.left and driver.poll() is None:
                self._strike(driver, place)
            status = ended(driver, place)

    def _strike(self, driver: psutil.Popen, place: Place) -> None:
        """Waits for a random time, and kills one of those that were killed least."""
        kind = min(VICTIMS, key=lambda name: (self.killed[name], self._random.random()))
        end = time.monotonic() + self._random.uniform(0.0, self.most_seconds)
        while time.monotonic() < end or not place.recorded():
            time.sleep(0.05)
            if driver.poll() is not None:
                return
        victim = self._victim(kind, driver, place)
        if victim is None:
            return
        runs_cases = "zygote" in map(kind_of, place.processes())
        with suppress(psutil.NoSuchProcess):
            victim.kill()
            self.killed[kind] += 1
            self.left -= 1
        if kind in FATAL and runs_cases:  # before that, Ray is started again where it ends
            driver.wait(END_SECONDS)

    def _victim(self, kind: str, driver: psutil.Popen, place: Place) -> psutil.Process | None:
        """A process of the kind, once there is one; None if there is none in time."""
        end = time.monotonic() + SEEN_WITHIN_SECONDS
        while driver.poll() is None and time.monotonic() < end:
            if kind == "driver":
                return driver
            if several := [process for process in place.processes() if kind_of(process) == kind]:
                return self._random.choice(several)
        return None


def start(command: tuple[str, ...], place: Place) -> psutil.Popen:
    """Starts a campaign that writes to `place`; its standard error is appended to the file `log` there."""
    with place.out.with_suffix(".log").open("a") as log:
        words = (sys.executable, "-m", "difftest", *command, "--out", str(place.out))
        return psutil.Popen(words, stdout=subprocess.DEVNULL, stderr=log, env=place.environment())


def ended(driver: psutil.Popen, place: Place) -> int:
    """The exit status of a driver that completes its campaign or notices that it cannot; 0 for complete.

    Asserts that no process of its outlives it for long.
    """
    status = driver.wait()
    log = place.out.with_suffix(".log").read_text()
    if status == BY_RAY and any(message in log.rpartition(STARTS)[2] for message in ENDED_BY_RAY):
        status = INCOMPLETE
    assert status in (0, INCOMPLETE, -9), f"exit status {status}: {log}"
    soon_empty(
        lambda: [described(process) for process in place.processes()],
        f"after exit status {status}",
    )
    return status


def soon_empty(what: Callable[[], Collection[object]], when: str) -> None:
    """Asserts that nothing is left of what `what` returns after `ALONE_SECONDS`."""
    end = time.monotonic() + ALONE_SECONDS
    while left := what():
        assert time.monotonic() < end, f"{when}: {left}"
        time.sleep(0.1)


def kind_of(process: psutil.Process) -> str:
    """Which of the victims a process is; empty for another process, and for one that has ended."""
    try:
        words, name = process.cmdline(), process.name()
    except psutil.Error:
        return ""
    program = words[0] if words else ""
    if "workers.zygote" in words:
        return "rank" if name.startswith("rank") else "zygote"
    kinds: Mapping[str, str] = {"raylet": "raylet", "gcs_server": "gcs"}
    return "worker" if program.startswith("ray::") else kinds.get(Path(program).name, "")


def described(process: psutil.Process) -> str:
    """The command of a process, for messages."""
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "ended"
