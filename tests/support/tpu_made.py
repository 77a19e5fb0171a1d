"""The environment with torch_tpu: where tests find it, why they are skipped, and programs in it."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import pytest

from difftest.cases.case import Case
from difftest.ground import made_environments
from difftest.judge.outcome import Outcome
from difftest.records import traces

PROGRAMS, ROOT = Path(__file__).parent, Path(__file__).parents[2]
PYTHON = made_environments.python("torch_tpu")
END_SECONDS = 60

needs_torch_tpu = pytest.mark.skipif(
    PYTHON is None,
    reason="no environment with torch_tpu: `difftest environments make torch_tpu`, in DIFFTEST_MADE",
)


class Program:
    """A test program that runs with torch_tpu and answers a line with a line."""

    def __init__(self, name: str, log: Path) -> None:
        self._log = log
        with log.open("w") as opened:
            self._process = subprocess.Popen(
                [str(PYTHON), "-P", str(PROGRAMS / name)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=opened,
                text=True,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )

    @property
    def log(self) -> str:
        """The end of what the program wrote to standard error."""
        return self._log.read_text()[-4000:]

    def answer(self, line: str) -> str:
        """The answer to a line; the test fails where the program has ended."""
        requests, answers = self._pipes()
        requests.write(line + "\n")
        requests.flush()
        answer = answers.readline()
        assert answer, self.log
        return answer

    def end(self) -> None:
        """Ends the program."""
        requests, answers = self._pipes()
        requests.close()
        self._process.wait(END_SECONDS)
        answers.close()

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout


class Runs:
    """Runs of cases on torch_tpu, in real processes."""

    def __init__(self, folder: Path) -> None:
        self._program, self._folder, self._count = Program("tpu_runs.py", folder / "log"), folder, 0
        self.end = self._program.end

    def run(self, case: Case, backend: str, options: Mapping[str, str] | None = None) -> Outcome:
        """The outcome of a run; the test fails where the backend does not support the case."""
        self._count += 1
        stem = self._folder / str(self._count)
        wanted = {
            "case": case.to_json().decode(),
            "backend": backend,
            "options": dict(options or {}),
            "stem": str(stem),
        }
        self._program.answer(json.dumps(wanted))
        outcome = traces.load(stem)
        assert outcome is not None, self._program.log
        return outcome
