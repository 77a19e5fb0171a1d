"""A bundle in one file compares as its folder does, and an archive from elsewhere writes nowhere else."""

from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import pytest
import sample_bundles

from difftest.ground.errors import UsageError
from difftest.records.bundle import Joined
from difftest.records.bundle_archive import pack, unpacked


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    pack(sample_bundles.recorded(tmp_path / "bundle", "ddp", repeats=1), tmp_path / "bundle.zip")
    return tmp_path / "bundle.zip"


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_an_archive_has_the_files_of_the_folder_which_is_gone(archive: Path, tmp_path: Path) -> None:
    folder = sample_bundles.recorded(tmp_path / "again", "ddp", repeats=1)
    assert not (tmp_path / "bundle").exists()
    with unpacked([folder, archive]) as (same, other):
        assert same == folder
        assert contents(other).keys() == contents(folder).keys()
        assert [case.id for _, case in Joined([other], "oracle").cases] == [
            case.id for _, case in Joined([folder], "oracle").cases
        ]
    assert not other.exists()


def test_equal_bundles_are_equal_archives(tmp_path: Path) -> None:
    packed = list[bytes]()
    for name in ("one", "two"):
        (tmp_path / name / "cases").mkdir(parents=True)
        (tmp_path / name / "cases" / "12ab.json").write_text("{}")
        pack(tmp_path / name, tmp_path / f"{name}.zip")
        packed.append((tmp_path / f"{name}.zip").read_bytes())
    assert packed[0] == packed[1]


@pytest.mark.parametrize(
    "name",
    ["../treasure", "/etc/passwd", "cases/../../a.json", "runs/0.py", "cases/", "a/b.json", "runs.jsonl.gz"],
)
def test_an_archive_with_a_name_that_no_bundle_has_is_refused(tmp_path: Path, name: str) -> None:
    with ZipFile(tmp_path / "bundle.zip", "w") as archive:
        archive.writestr("runs.jsonl", "")
        archive.writestr(name, "harm")
    with pytest.raises(UsageError, match="which no bundle has"), unpacked([tmp_path / "bundle.zip"]):
        pass


def test_an_archive_with_a_member_twice_is_refused(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "bundle.zip", "w") as archive:
        for text in ("one", "two"):
            with pytest.warns(UserWarning, match="Duplicate") if text == "two" else ExitStack():
                archive.writestr("runs.jsonl", text)
    with pytest.raises(UsageError, match="no archive of a bundle"), unpacked([tmp_path / "bundle.zip"]):
        pass


def test_an_archive_that_needs_more_room_than_there_is_is_refused(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=1000))
    with pytest.raises(UsageError, match="has room for 1000"), unpacked([archive]):
        pass


@pytest.mark.parametrize("cut", [0, 10, 1000, -30])
def test_a_damaged_archive_is_refused(archive: Path, cut: int) -> None:
    archive.write_bytes(archive.read_bytes()[:cut])
    with pytest.raises(UsageError, match="no archive of a bundle"), unpacked([archive]):
        pass


def test_a_damaged_member_is_refused(archive: Path) -> None:
    content = bytearray(archive.read_bytes())
    content[len(content) // 3] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(UsageError, match="no archive of a bundle"), unpacked([archive]):
        pass
