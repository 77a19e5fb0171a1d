"""Where a campaign's files go: a folder that is still there when the campaign has ended, or storage that has an address.

Storage is worked on in a folder of this machine, which is filled from it at the start and copied to it every minute and at the end: what a
killed campaign had recorded is there, but for the last minute. Nothing keeps two machines from using one address at once: who runs
several campaigns gives each its own.
"""

import importlib
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import click

from difftest.errors import InfrastructureError, UsageError

COPIES = "working_dir_files"
"""Ray unpacks a job's working directory below a folder of this name, and removes it some time after the job."""

EVERY_SECONDS = 60.0
"""How often storage is brought up to date."""

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")


class Out(click.ParamType[Path | str]):
    """A folder, or an address that fsspec knows. A relative folder inside a Ray job's copy of its working directory is refused."""

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:  # noqa: ANN401
        """The folder or the address; wrong usage for a folder that will not stay."""
        if _ADDRESS.match(str(value)):
            return str(value)
        out = Path(value)
        if COPIES in (place := Path.cwd() / out).resolve().parts:
            reason = "is inside this Ray job's copy of its working directory, which Ray removes after the job"
            self.fail(
                f"{str(place)!r} {reason}; give an absolute path that stays, or an address such as s3://bucket/runs",
                param,
                ctx,
            )
        return out


@contextmanager
def placed(out: Path | str) -> Iterator[Path]:
    """The folder to work in: `out` itself, or for an address a folder that is copied from and to it.

    `UsageError` for an address that cannot be used here, `InfrastructureError` when what is there cannot be read, or the end not be copied.
    """
    if isinstance(out, Path):
        yield out
        return
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above) / (PurePosixPath(out).name or "runs")  # reports are called after it
        folder.mkdir()
        storage = _Storage(out, folder)
        storage.fetch()
        ended = threading.Event()
        thread = threading.Thread(target=storage.keep, args=(ended,), daemon=True)
        thread.start()
        try:
            yield folder
        finally:
            ended.set()
            thread.join()
            storage.send()
            click.echo(f"copied to {out}", err=True)


class _Storage:
    """An address, and the folder of this machine that stands for it."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self._sent: dict[Path, tuple[int, int]] = {}
        try:
            self._files, root = importlib.import_module("fsspec.core").url_to_fs(address)
        except (ImportError, ValueError) as error:
            msg = f"--out is {address!r}, which cannot be used here: {error}"
            raise UsageError(msg) from error
        self._root = root.rstrip("/")

    def fetch(self) -> None:
        """Fills the folder with what is there."""
        try:
            for name in self._files.find(self._root) if self._files.exists(self._root) else ():
                within = PurePosixPath(name.removeprefix(self._root).lstrip("/"))
                if ".." not in within.parts:
                    file = self._folder / within
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(self._files.cat_file(name))
        except OSError as error:
            msg = f"cannot read {self._address}: {error}"
            raise InfrastructureError(msg) from error

    def keep(self, ended: threading.Event) -> None:
        """Sends what is new now and then; what could not be sent is tried again, and is an error only at the end."""
        while not ended.wait(EVERY_SECONDS):
            try:
                self.send()
            except InfrastructureError as error:
                click.echo(f"difftest: {error}", err=True)

    def send(self) -> None:
        """Copies every file that changed since it was copied last; those that are being written have a dot before their names."""
        try:
            for file in sorted(self._folder.rglob("*")):
                if file.name.startswith(".") or not file.is_file():
                    continue
                state = file.stat()
                version = (state.st_mtime_ns, state.st_size)
                if self._sent.get(file) != version:
                    target = f"{self._root}/{file.relative_to(self._folder).as_posix()}"
                    self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
                    self._files.pipe_file(target, file.read_bytes())
                    self._sent[file] = version
        except OSError as error:
            msg = f"cannot write {self._address}: {error}"
            raise InfrastructureError(msg) from error
