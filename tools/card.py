"""Runs steps on a machine with a GPU that is lent for minutes, and keeps what each of them wrote.

python -m tools.card STEPS.toml OUT SECONDS

STEPS.toml has a table for each step: `run`, a command of bash, and `seconds`, which it may take at most.
`$OUT` is the folder OUT, `$PYTHON` this interpreter. As many steps as `at_once` says run side by side, in the
order of the file. Each writes to `OUT/logs/STEP` at once, and `OUT/status` says how each ended, so that a
machine which is taken away leaves what it had. After SECONDS no step goes on.
"""

import os
import signal
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

AT_ONCE = 4
GRACE = 5.0
"""Seconds from the request to end, in which a campaign writes what it has, to the end by force."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command of bash, and how long it may take."""

    run: str
    seconds: float


def main() -> None:
    """Runs the steps of a file, as the module's docstring says."""
    file, out, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    document: dict[str, Any] = tomllib.loads(file.read_text())
    at_once = int(document.pop("at_once", AT_ONCE))
    steps = msgspec.convert(document, dict[str, Step])
    (out / "logs").mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(at_once) as threads, (out / "status").open("a", buffering=1) as status:
        for future in as_completed([threads.submit(_ran, name, steps[name], out, end) for name in steps]):
            status.write(future.result())
            sys.stdout.write(future.result())
            sys.stdout.flush()


def _ran(name: str, step: Step, out: Path, end: float) -> str:
    """Runs one step; the line that says how it ended."""
    began = time.monotonic()
    limit = min(step.seconds, end - began)
    if limit <= 0:
        return f"{name}: not started, the time is over\n"
    environment = {**os.environ, "OUT": str(out), "PYTHON": sys.executable}
    with (out / "logs" / name).open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  the file's own commands
            ["bash", "-c", step.run],  # noqa: S607
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        for ending in (signal.SIGINT, signal.SIGKILL):
            try:
                process.wait(limit)
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, ending)
                limit = GRACE
        status = process.wait()
    return f"{name}: status {status} after {time.monotonic() - began:.0f} s\n"


if __name__ == "__main__":
    main()
