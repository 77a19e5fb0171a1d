"""`difftest compare --by release`: which package's release parts two runs of one script.

The script runs again in environments between those of both runs, in which more and more packages have the
version of the second; a binary search finds the first after which it differs from the first run.
"""

import hashlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from difftest.findings.bisect import Bisected, VersionResult, bisect
from difftest.ground.errors import InfrastructureError
from difftest.ground.state_folder import state_folder
from difftest.jobs.filing.case_script import requirement
from difftest.jobs.installed import environments
from difftest.runs.compare import compare
from difftest.runs.comparison import DIFFER, UNDECIDED
from difftest.runs.layout import RECORDING
from difftest.runs.read import read
from difftest.runs.releases import Change, changes, requirements

HOME = "releases"
"""The folder of the user's state in which the environments are."""

NEITHER, ALL = "the first run's packages", "the second run itself"
"""The ends of the search; the second run is known to differ."""

MOST_OUTPUT = 600
"""Characters of a failed script's output that are shown at most, its last lines."""


@dataclass(kw_only=True)
class ByRelease:
    """The search: the two runs, the script as the arguments of a Python, and where environments are kept."""

    runs: tuple[Path, Path]
    script: str
    root: Path = field(default_factory=lambda: state_folder() / HOME)
    noise: Sequence[Path] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def search(self) -> tuple[Bisected, list[Change]]:
        """Bisects, and says on standard error what each environment gave."""
        first, second = (read(run) for run in self.runs)
        changed = changes(first, second)
        labels = _labels(changed)

        def ask(label: str) -> VersionResult:
            if label == ALL:
                return VersionResult(version=label, shown=1, times=1)
            wanted = requirements(first, second, changed[: labels.index(label)], requirement())
            result = self._tried(wanted, label)
            words = {"shown": "differs from", "absent": "is equal to"}.get(
                result.answer, "gave no answer beside"
            )
            click.echo(f"up to {label}: {words} {self.runs[0]}", err=True)
            return result

        result = bisect(labels, ask)
        if (result.last, result.first) == (labels[-2], ALL):  # no package parts the runs
            result = replace(result, verdict="in none", last="", first="")
        return result, changed

    def _tried(self, wanted: Sequence[str], label: str) -> VersionResult:
        """Runs the script in an environment of its own, and compares it with the first run."""
        digest = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:12]
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            try:
                python = environments.make(self.root / digest, wanted)
                command = [str(python), *shlex.split(self.script)]
                done = subprocess.run(  # noqa: S603  what the user named
                    command,
                    env=os.environ | {RECORDING: str(out)},
                    capture_output=True,
                    text=True,
                    check=False,
                )
            except (InfrastructureError, OSError) as error:
                return VersionResult(version=label, output=str(error))
            if done.returncode or not out.exists():
                return VersionResult(version=label, output=_end(done.stderr or done.stdout))
            verdict = compare(self.runs[0], out, noise=self.noise, names=self.names or None).verdict
        if verdict == UNDECIDED:
            return VersionResult(version=label, output=verdict)
        shown = verdict == DIFFER
        return VersionResult(version=label, shown=shown, absent=not shown, times=1, output=verdict)


def _end(output: str) -> str:
    """The last whole lines of what a script printed."""
    return output if len(output) <= MOST_OUTPUT else output[-MOST_OUTPUT:].partition("\n")[2]


def suspects(result: Bisected, changed: Sequence[Change]) -> list[Change]:
    """The changes of which one brings the difference: one, or several that work only together."""
    if result.verdict != "came":
        return []
    labels = _labels(changed)
    return list(changed[labels.index(result.last) : labels.index(result.first)])


def _labels(changed: Sequence[Change]) -> list[str]:
    return [NEITHER, *(change.label for change in changed), ALL]


def lines(result: Bisected, changed: Sequence[Change]) -> Iterator[str]:
    """The answer for a terminal."""
    guilty = suspects(result, changed)
    if len(guilty) == 1:
        yield f"The difference comes with {guilty[0].label}."
    elif guilty:
        yield "The difference comes with one of these, which gave no answer one by one:"
        yield from (f"  {change.label}" for change in guilty)
    elif result.verdict == "in all":
        yield "The script differs with the first run's packages already: look at machine and randomness."
    elif result.verdict == "in none":
        yield "The script is equal with all of the second run's packages: they are not the cause."
    else:
        yield "No package can be named."
    for one in result.results:
        if one.answer == "untold":
            yield f"no answer up to {one.version}: {one.output.strip()}"


def described(result: Bisected, changed: Sequence[Change]) -> dict[str, Any]:
    """The answer for JSON."""
    return {
        "verdict": result.verdict,
        "changes": [change.label for change in changed],
        "suspects": [change.label for change in suspects(result, changed)],
        "answers": {one.version: one.answer for one in result.results if one.version != ALL},
    }
