"""The limits of a rank, measured on real processes and real files."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from workers.isolate import limits
from workers.isolate.limits import Limits

HOLDS = "held = bytearray(256 * 2**20); print(len(held), flush=True); input()"


def test_a_process_beyond_its_memory_limit_is_reported_with_its_rank(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        excess = limits.excess(Limits(memory=2**27), tmp_path, {process.pid: 3})
        roomy = limits.excess(Limits(memory=2**30), tmp_path, {process.pid: 3})
        process.communicate(b"\n")
    assert excess
    assert (excess.rank, excess.kind) == (3, "memory limit")
    assert "allowed: 0.125 GiB" in excess.message
    assert roomy is None


def test_an_ended_process_uses_no_memory(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert limits.excess(Limits(memory=0), tmp_path, {process.pid: 0}) is None


def test_output_is_counted_over_all_files_and_the_largest_is_named(tmp_path: Path) -> None:
    (tmp_path / "rank0.err").write_bytes(b"." * 600)
    (tmp_path / "rank12.npz").write_bytes(b"." * 700)
    assert limits.excess(Limits(output=1300), tmp_path, {}) is None
    excess = limits.excess(Limits(output=1299), tmp_path, {})
    assert excess
    assert (excess.rank, excess.kind) == (12, "output limit")
    assert "rank12.npz" in excess.message


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.full_disk(tmp_path) is None
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=4096))
    assert limits.full_disk(tmp_path) == f"the disk of {tmp_path.parent} is full: 4096 bytes are left"
