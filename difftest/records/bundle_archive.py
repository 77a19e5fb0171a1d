"""A bundle in one file: a zip archive of its folder, which is easier to send and to keep than many files.

An archive is data from elsewhere. Only members with the names that a bundle's files have are unpacked, each
once, as plain files of a temporary folder, and only where there is room for all of them.
"""

import re
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from lzma import LZMAError
from pathlib import Path
from zipfile import ZIP_LZMA, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from difftest.ground.errors import UsageError
from difftest.ground.own_folder import own_folder

SUFFIX = ".zip"
"""Of the file's name."""

_MEMBER = re.compile(r"(?:(?:cases|runs)/[0-9a-f]{1,40}\.(?:json|npz)|[a-z]{1,20}\.jsonl?)")
_WHOLE = "bundle.zip"
"""The one member of an archive: a plain archive of the bundle, which is compressed as one.

Archives from before it have the bundle's files as their members.
"""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every member: equal bundles are equal files."""


def pack(folder: Path, file: Path) -> None:
    """Moves the bundle in `folder` into the archive `file`."""
    part, plain = file.with_name(f".{file.name}.part"), file.with_name(f".{file.name}.plain")
    with ZipFile(plain, "w", ZIP_STORED) as archive:
        for path in sorted((path for path in folder.rglob("*") if path.is_file()), key=_place):
            member = ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            archive.writestr(member, path.read_bytes(), ZIP_STORED)
    with ZipFile(part, "w") as archive, plain.open("rb") as source:
        whole = ZipInfo(_WHOLE, _EPOCH)
        whole.compress_type = ZIP_LZMA
        with archive.open(whole, "w", force_zip64=True) as packed:
            shutil.copyfileobj(source, packed)
    plain.unlink()
    part.replace(file)
    shutil.rmtree(folder)


def _place(path: Path) -> tuple[str, str, int, str]:
    """Files of a kind lie side by side, in the order in which they were made: those of one case are alike."""
    return path.suffix, path.parent.name, int(path.stem) if path.stem.isdecimal() else 0, path.name


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
            except (BadZipFile, EOFError, OSError, ValueError, RuntimeError, zlib.error, LZMAError) as error:
                msg = f"{str(bundle)!r} is no archive of a bundle: {error}"
                raise UsageError(msg) from error
        yield tuple(folders)


def _unpack(file: Path, folder: Path) -> None:
    with ZipFile(file) as archive:
        members = archive.infolist()
        if [member.filename for member in members] == [_WHOLE]:
            with own_folder("bundle") as inner:
                _extract(archive, members, inner)
                _unpack(inner / _WHOLE, folder)
            return
        if wrong := [member.filename for member in members if not _MEMBER.fullmatch(member.filename)]:
            msg = f"it has a member {wrong[0]!r}, which no bundle has"
            raise ValueError(msg)
        _extract(archive, members, folder)


def _extract(archive: ZipFile, members: Sequence[ZipInfo], folder: Path) -> None:
    """Unpacks members whose names were checked; `ValueError` where there is no room for all of them."""
    size, free = sum(member.file_size for member in members), shutil.disk_usage(folder).free
    if size > free:
        msg = f"unpacked it has {size} bytes, and {folder} has room for {free}"
        raise ValueError(msg)
    for member in members:
        path = folder / member.filename
        path.parent.mkdir(exist_ok=True)
        with archive.open(member) as packed, path.open("xb") as plain:
            shutil.copyfileobj(packed, plain)
