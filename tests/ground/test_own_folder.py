"""Temporary folders end with their process, or with the next start."""

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from difftest.ground.own_folder import KINDS, Kind, own_folder, remove_abandoned, short_parent

HOLDER = """
import sys, time
from pathlib import Path
from difftest.ground.own_folder import own_folder
with own_folder("run", Path(sys.argv[1])) as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    time.sleep(60)
"""


def left(parent: Path) -> list[str]:
    return sorted(file.name for file in parent.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_private_while_it_is_used_and_then_gone(tmp_path: Path, kind: Kind) -> None:
    with own_folder(kind, tmp_path) as folder:
        (folder / "a" / "b").mkdir(parents=True)
        assert folder.stat().st_mode & 0o077 == 0
        remove_abandoned(tmp_path)
        assert (folder / "a" / "b").is_dir(), "it is in use"
    assert left(tmp_path) == []


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    holders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        folders = [Path(holder.stdout.readline().strip()) for holder in holders if holder.stdout]
        remove_abandoned(tmp_path)
        assert left(tmp_path) == sorted(folder.name for folder in folders)
        holders[0].send_signal(signal.SIGKILL)
        holders[0].wait()
        remove_abandoned(tmp_path)
        assert left(tmp_path) == [folders[1].name]
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_another_folder_is_made_where_one_is_removed_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = list[Path](), tempfile.mkdtemp

    def removed_at_first(prefix: str, dir: Path) -> str:  # noqa: A002  of tempfile
        made.append(Path(make(prefix=prefix, dir=dir)))
        if len(made) == 1:
            remove_abandoned(dir)
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", removed_at_first)
    with own_folder("run", tmp_path) as folder:
        assert folder == made[1]
        assert folder.is_dir()


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "data").mkdir(parents=True)
    place = tmp_path / "tmp"
    for name in ("difftest-main", "difftest-run", "difftest-run_short", "difftest-my_12345678"):
        (place / name).mkdir(parents=True)
    (place / "difftest-run_link1234").symlink_to(outside)
    (place / "difftest-run_file1234").write_text("a file")
    before = left(place)
    remove_abandoned(place)
    assert left(place) == before
    assert (outside / "data").is_dir()


def test_an_abandoned_folder_is_removed_without_following_its_links(tmp_path: Path) -> None:
    outside, place = tmp_path / "outside", tmp_path / "tmp" / "difftest-out_abcd1234"
    outside.mkdir()
    place.mkdir(parents=True)
    (place / "link").symlink_to(outside)
    (outside / "kept").write_text("x")
    remove_abandoned(tmp_path / "tmp")
    assert (left(tmp_path / "tmp"), left(outside)) == ([], ["kept"])


@pytest.mark.parametrize(
    ("temporary", "used"),
    [("/short", "/short"), ("/much/longer/than/that", "/tmp"), ("/größe", "/tmp"), ("/临时", "/tmp")],  # noqa: S108
)
def test_sockets_are_below_a_short_name_of_plain_characters(
    monkeypatch: pytest.MonkeyPatch, temporary: str, used: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", temporary)
    assert short_parent(12) == Path(used)
