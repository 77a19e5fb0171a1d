"""Where a campaign writes: a folder, or storage with an address such as s3://bucket/runs.

For storage, the campaign works in a temporary folder of this machine. The folder is filled from the storage
at the start, and copied to it every minute and at the end. A campaign that is killed loses at most its last
minute. Nothing stops two machines from using one address at once: give every campaign an address of its own.
"""

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import click

from difftest.ground.errors import InfrastructureError, UsageError
from difftest.ground.own_folder import own_folder
from difftest.jobs.ask import outputs
from difftest.jobs.ask.damaged_records import set_aside_and_report
from difftest.jobs.ask.targets import campaign_corpus
from difftest.records.corpus import Corpus
from difftest.records.disk import refuse_links_below, replace_file

EVERY_SECONDS = 60.0
"""How often changed files are copied to storage."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command writes: `folder` on this machine, which the user called `name`, maybe an address.

    `damaged` gets the number of damaged records that `prepared_corpus` set aside.
    """

    folder: Path
    name: str
    damaged: list[int] = field(default_factory=list)

    @property
    def corpus(self) -> Corpus:
        """The campaign's corpus."""
        return campaign_corpus(self.folder)

    def prepared_corpus(self) -> Corpus:
        """The corpus, whose damaged records are set aside and reported.

        `UsageError` if a record is too new, or the corpus cannot be written.
        """
        corpus = self.corpus
        corpus.prepare()
        self.damaged.append(set_aside_and_report(corpus))
        return corpus


@contextmanager
def opened(out: Path | str) -> Iterator[Output]:
    """Where to write: the folder `out`, or for an address a temporary folder that is copied from and to it.

    `UsageError` for an address that cannot be used here, `InfrastructureError` when the storage cannot be
    read, or cannot be written at the end.
    """
    if isinstance(out, Path):
        outputs.remember(out)
        yield Output(out, str(out))
        return
    with own_folder("out") as above:
        folder = above / (PurePosixPath(out).name or "runs")  # the reports' title is the folder's name
        folder.mkdir()
        storage = _Storage(out, folder)
        storage.fetch()
        ended = threading.Event()
        thread = threading.Thread(target=storage.keep, args=(ended,), daemon=True)
        thread.start()
        try:
            yield Output(folder, out)
        finally:
            ended.set()
            thread.join()
            storage.send()
            click.echo(f"copied to {out}", err=True)


class _Storage:
    """An address, and the folder of this machine that mirrors it."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self._copied: dict[Path, tuple[int, int]] = {}
        try:
            self._files, root = importlib.import_module("fsspec.core").url_to_fs(address)
        except (ImportError, ValueError) as error:
            msg = f"--out is {address!r}, which cannot be used here: {error}"
            raise UsageError(msg) from error
        self._root = root.rstrip("/")
        self._local = "file" in self._files.protocol

    def fetch(self) -> None:
        """Copies all files of the storage into the folder.

        `InfrastructureError` when they cannot be read, `UsageError` when they are a local folder with links.
        """
        if self._local:  # storage in a folder may hold links, which must not be followed
            refuse_links_below(Path(self._root))
        try:
            for name in self._files.find(self._root) if self._files.exists(self._root) else ():
                within = PurePosixPath(name.removeprefix(self._root).lstrip("/"))
                if ".." not in within.parts:
                    file = self._folder / within
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(self._files.cat_file(name))
                    self._copied[file] = _version(file)
        except OSError as error:
            msg = f"cannot read {self._address}: {error}"
            raise InfrastructureError(msg) from error

    def keep(self, ended: threading.Event) -> None:
        """Copies changed files to the storage every minute, until `ended`.

        A failure is only printed, because the next copy, or the one at the end, tries again.
        """
        while not ended.wait(EVERY_SECONDS):
            try:
                self.send()
            except InfrastructureError as error:
                click.echo(f"difftest: {error}", err=True)

    def send(self) -> None:
        """Copies every file that changed since its last copy; `InfrastructureError` when that fails.

        Files whose names begin with a dot are left out: they are still being written. What was moved or
        deleted here is deleted there, after its new place was copied.
        """
        gone = [file for file in self._copied if not file.exists()]
        try:
            for file in sorted(self._folder.rglob("*")):
                if file.name.startswith(".") or file.is_symlink() or not file.is_file():
                    continue
                version = _version(file)
                if self._copied.get(file) != version:
                    self._write(file)
                    self._copied[file] = version
            for file in gone:
                self._delete(file)
        except OSError as error:
            msg = f"cannot write {self._address}: {error}"
            raise InfrastructureError(msg) from error

    def _write(self, file: Path) -> None:
        """Copies one file; in a local folder it is replaced, so that no other name of it is written to."""
        target = self._target(file)
        self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
        if self._local:
            replace_file(Path(target), file.read_bytes())
        else:
            self._files.pipe_file(target, file.read_bytes())

    def _delete(self, file: Path) -> None:
        """Deletes a file there; only says so where that is not allowed."""
        del self._copied[file]
        target = self._target(file)
        try:
            if self._files.exists(target):
                self._files.rm(target)
        except (OSError, NotImplementedError) as error:
            click.echo(f"difftest: cannot delete {target} in {self._address}: {error}", err=True)

    def _target(self, file: Path) -> str:
        return f"{self._root}/{file.relative_to(self._folder).as_posix()}"


def _version(file: Path) -> tuple[int, int]:
    """What changes when a file is written: its time in nanoseconds and its size in bytes."""
    state = file.stat()
    return state.st_mtime_ns, state.st_size
