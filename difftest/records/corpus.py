"""The corpus: a folder of findings and observations, in files that can be read without this program.

Every finding has `<root>/<fingerprint>/{finding.json, case.json}`, and `reduced.json` beside them where its
case was reduced. Every run is one line in `<root>/observations/<campaign>.jsonl`. Files are replaced by
renaming, and the lines of a case are appended in one write; there is no pickle anywhere. What is written is
on disk when the call returns, and no link is followed. Damaged records are moved to `<root>/damaged`
(`difftest.records.damaged`).
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from difftest.cases.case import Case
from difftest.ground.errors import DamagedError, UsageError
from difftest.judge.fingerprint import Fingerprint
from difftest.records import index, read_limits
from difftest.records.case_files import read_case, write_case
from difftest.records.disk import (
    append,
    cannot_read,
    cannot_write,
    open_plain,
    refuse_link,
    replace_file,
    require_plain,
    writing,
)
from difftest.records.finding import Finding
from difftest.records.observation import Observation, read_observations

CORPUS = "corpus"
"""The corpus of a campaign, in the campaign's output folder."""

OBSERVATIONS = "observations"
DAMAGED = "damaged"
LOCK = ".lock"
FINDING = "finding.json"
SCRIPT, OUTPUT = "reproducer.py", "reproducer.txt"
"""A finding's reproducer, and what it printed when it was run."""

ARTIFACTS = "artifacts"
"""The folder of what XLA compiled when the reproducer was run."""

BEFORE_PASS, AFTER_PASS = "before_pass.hlo.txt", "after_pass.hlo.txt"
"""The artifacts with the module before and after the pass of XLA that is at fault."""

REDUCED = "reduced.json"
DRAFT = "issue.md"
CASE = "case.json"


@dataclass(frozen=True, slots=True)
class Corpus:
    """A folder of findings and observations, made when first written to."""

    root: Path

    def prepare(self) -> None:
        """Makes the folder and writes to it once.

        `UsageError` where it cannot be made or written, or is a link, `InfrastructureError` where the disk is
        full. `difftest.records.damaged` looks for
        links in it.
        """
        for place in (self.root, self.root / OBSERVATIONS):
            refuse_link(place)
        try:
            (self.root / OBSERVATIONS).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            where, allowed = f"to {str(self.root)!r}", "give a folder that can be made and written"
            raise cannot_write(where, error, allowed) from error

    def refuse_links(self) -> None:
        """`UsageError` where one of the corpus's own files or folders is a link or a special file.

        A corpus from elsewhere could lead reads and writes out of it that way.
        """
        if not self.root.is_dir():
            return
        own = {OBSERVATIONS, DAMAGED, LOCK}
        with os.scandir(self.root) as places:
            for place in places:
                if place.name in own or Fingerprint.parse(place.name):
                    require_plain(place)

    def fingerprints(self) -> tuple[str, ...]:
        """The fingerprints of the findings here, sorted."""
        if not self.root.is_dir():
            return ()
        return tuple(
            sorted(
                p.name for p in self.root.iterdir() if Fingerprint.parse(p.name) and (p / FINDING).is_file()
            )
        )

    def holds(self, fingerprint: str) -> bool:
        """Whether the finding with this fingerprint is here."""
        return (self.root / fingerprint / FINDING).is_file()

    def finding(self, fingerprint: str) -> Finding:
        """The finding with this fingerprint.

        `UsageError` where there is none or it is too new; `DamagedError` where its content cannot be read, or
        has another fingerprint than its folder's name.
        """
        file = self.root / fingerprint / FINDING
        try:
            finding = Finding.from_json(read_limits.read(file, read_limits.MOST_FINDING_BYTES))
        except (FileNotFoundError, NotADirectoryError) as error:
            there = ", ".join(self.fingerprints()) or "none"
            msg = f"no finding {fingerprint!r} in {str(self.root)!r}; there are: {there}"
            raise UsageError(msg) from error
        except OSError as error:
            raise cannot_read(file, error) from error
        except UsageError as error:
            msg = f"{file}: {error}"
            raise type(error)(msg) from error
        if finding.fingerprint != fingerprint:
            msg = f"{file} holds {finding.fingerprint!r}; a finding's folder has its fingerprint's name"
            raise DamagedError(msg)
        return finding

    def findings(self) -> Iterator[Finding]:
        """Every finding, sorted by fingerprint."""
        return (self.finding(name) for name in self.fingerprints())

    def case(self, fingerprint: str) -> Case:
        """The first case that showed a finding; `UsageError` where it cannot be read."""
        return read_case(self.root / fingerprint / CASE)

    def simplest(self, fingerprint: str) -> Case:
        """The simplest case that shows a finding: its reduced one, else its own.

        A reduced case whose id is not the finding's `reduced` is ignored, as it may show anything: somebody
        put another backend's there, or a write was cut off.
        """
        file, named = self.root / fingerprint / REDUCED, self.finding(fingerprint).reduced
        reduced = read_case(file) if named and file.is_file() else None
        return reduced if reduced and reduced.id == named else self.case(fingerprint)

    def files(self, fingerprint: str) -> tuple[str, ...]:
        """The names of a finding's files and folders that are there and are no links."""
        folder = self.root / fingerprint
        names = (CASE, FINDING, REDUCED, SCRIPT, OUTPUT, DRAFT, ARTIFACTS)
        return tuple(name for name in names if (folder / name).exists() and not (folder / name).is_symlink())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the corpus's lock, while a finding is read, changed and written; others wait for it."""
        file = self.root / LOCK
        with writing(file):
            descriptor = open_plain(file, os.O_RDWR | os.O_CREAT)
        with os.fdopen(descriptor, "rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX)
            yield

    def save(self, finding: Finding, case: Case) -> None:
        """Writes a finding and its case; a concurrent reader sees the old file or the new one, whole."""
        folder = self.root / finding.fingerprint
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_case(folder / CASE, case)
        self.put(finding)

    def put(self, finding: Finding) -> None:
        """Replaces a finding whose case is here. The caller holds the lock.

        `InfrastructureError` where it cannot be written.
        """
        with writing(self.root / finding.fingerprint):
            replace_file(self.root / finding.fingerprint / FINDING, finding.to_json())

    def amend(self, fingerprint: str, **changes: Any) -> Finding:  # noqa: ANN401  fields of a finding
        """Changes some fields of a finding, under the lock, and returns it.

        Other fields keep what other processes wrote.
        """
        with self.locked():
            finding = msgspec.structs.replace(self.finding(fingerprint), **changes)
            self.put(finding)
        return finding

    def save_reduced(self, fingerprint: str, case: Case, conditions: tuple[str, ...]) -> Finding:
        """Keeps a finding's reduced case and its necessary conditions.

        Deletes a reproducer that was made of another case.
        """
        folder = self.root / fingerprint
        with writing(folder):
            for stale in (SCRIPT, OUTPUT) if self.finding(fingerprint).reduced != case.id else ():
                (folder / stale).unlink(missing_ok=True)
            write_case(folder / REDUCED, case)
        return self.amend(fingerprint, reduced=case.id, conditions=conditions)

    def lines(self, campaign: str) -> Path:
        """The file with a campaign's runs."""
        return self.root / OBSERVATIONS / f"{campaign}.jsonl"

    def observe(self, *observations: Observation) -> None:
        """Appends the runs of one case, all of one campaign, in one write (`difftest.records.disk.append`).

        `InfrastructureError` where the disk is full.
        """
        text = b"".join(msgspec.json.encode(observation) + b"\n" for observation in observations)
        file = self.lines(observations[0].campaign)
        append(file, text)
        size = file.stat().st_size
        if size // index.PART_BYTES > (size - len(text)) // index.PART_BYTES:
            index.follow(file)

    def files_of_lines(self) -> list[Path]:
        """The files with the runs of each campaign, sorted."""
        return sorted((self.root / OBSERVATIONS).glob("*.jsonl"))

    def observations(self) -> Iterator[Observation]:
        """Every run of every campaign here, file by file.

        `UsageError` naming file and line where one is too new.

        Damaged lines, and an incomplete last one, as a killed campaign leaves it, are skipped.
        """
        for file in self.files_of_lines():
            yield from read_observations(file)
