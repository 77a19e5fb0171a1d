"""A bundle in one file: a zip archive of its folder, which is easier to send and to keep than many files.

An archive is data from elsewhere. Only members with the names that a bundle's files have are unpacked, each
once, as plain files of a temporary folder, and only where there is room for all of them.
"""

import re
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from difftest.ground.errors import UsageError
from difftest.ground.own_folder import own_folder

SUFFIX = ".zip"
"""Of the file's name."""

_MEMBER = re.compile(r"(?:(?:cases|runs)/[0-9a-f]{1,40}\.(?:json|npz)|[a-z]{1,20}\.jsonl?)")
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every member: equal bundles are equal files."""


def pack(folder: Path, file: Path) -> None:
    """Moves the bundle in `folder` into the archive `file`."""
    part = file.with_name(f".{file.name}.part")
    with ZipFile(part, "w", ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            archive.writestr(member, path.read_bytes(), ZIP_DEFLATED)
    part.replace(file)
    shutil.rmtree(folder)


@contextmanager
def unpacked(bundles: Sequence[Path]) -> Iterator[tuple[Path, ...]]:
    """The folders of `bundles`, into which archives are unpacked while the context is open.

    `UsageError` for a file that is no archive of a bundle.
    """
    with ExitStack() as stack:
        folders = list[Path]()
        for bundle in bundles:
            if not bundle.is_file():
                folders.append(bundle)
                continue
            folders.append(stack.enter_context(own_folder("bundle")))
            try:
                _unpack(bundle, folders[-1])
            except (BadZipFile, EOFError, OSError, ValueError, RuntimeError, zlib.error) as error:
                msg = f"{str(bundle)!r} is no archive of a bundle: {error}"
                raise UsageError(msg) from error
        yield tuple(folders)


def _unpack(file: Path, folder: Path) -> None:
    with ZipFile(file) as archive:
        members = archive.infolist()
        if wrong := [member.filename for member in members if not _MEMBER.fullmatch(member.filename)]:
            msg = f"it has a member {wrong[0]!r}, which no bundle has"
            raise ValueError(msg)
        size, free = sum(member.file_size for member in members), shutil.disk_usage(folder).free
        if size > free:
            msg = f"unpacked it has {size} bytes, and {folder} has room for {free}"
            raise ValueError(msg)
        for member in members:
            path = folder / member.filename
            path.parent.mkdir(exist_ok=True)
            with archive.open(member) as packed, path.open("xb") as plain:
                shutil.copyfileobj(packed, plain)
