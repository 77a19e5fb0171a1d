"""A campaign under random kills has the tables of an undisturbed one, and leaves nothing behind.

Its driver, Ray's raylet and GCS, workers, zygotes and ranks are killed by SIGKILL once its first case is
recorded. When the driver ends, the same command is started again.

On every change each of them is killed alone: raylet, GCS and driver in `tests/workers/test_lost_ray.py`, a
worker in `test_dispatch.py`, zygotes and ranks in `test_sandbox.py`. That a killed campaign is resumed to the
same tables is tested in `tests/records/test_resume.py`.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from chaos import VICTIMS, Chaos, Place, soon_empty
from installed_packages import needs
from machines import timeless_tables

pytestmark = [pytest.mark.slow, pytest.mark.xla, pytest.mark.nightly]
needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
needs("ray", reason="needs ray: pip install 'difftest[cluster]'")

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  where Ray and torch share memory
TIMES = ["seconds", "started"]
TIME_OF_A_LOG = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+")
"""XLA puts it into the message of a crash."""

COMMAND = ("run", "--seed", "5", "--max-world-size", "2", "--workers", "2", "--fail-on", "never")
QUICK = (*COMMAND, "--cases", "3", "--backends", "torch_ddp,xla_spmd", "--paths", "data_parallel")
THOROUGH = (
    *COMMAND,
    *("--cases", "40", "--backends", "torch_dtensor,xla_dtensor,xla_spmd"),
    *("--paths", "data_parallel,tensor_parallel"),
)


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a short name: the path of a socket of Ray has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="c-", dir="/tmp"))
    yield folder
    for name in folder.iterdir():
        Place(name, folder).kill()
    shutil.rmtree(folder, ignore_errors=True)


def place(root: Path, name: str) -> Place:
    """Where a campaign writes; Ray's temporary folder is in `temporary`, as its name is short enough."""
    temporary = root / name
    temporary.mkdir()
    return Place(root / f"{name}-out", temporary)


def results(out: Path) -> list[str]:
    """Every run, and the parts of every finding that do not depend on which case or rank ended first."""
    runs, findings = timeless_tables(out / "corpus")
    parts: list[Any] = [
        (
            one.fingerprint,
            one.blame,
            one.hits,
            one.cases_by_campaign,
            one.paths,
            one.divergence.stage,
            one.divergence.symptom,
            one.stable,
        )
        for one in findings
    ]
    return [TIME_OF_A_LOG.sub("", msgspec.json.encode(one).decode()) for one in (*runs, *parts)]


def table(out: Path) -> pd.DataFrame:
    frame = pd.read_parquet(out / "table.parquet").drop(columns=TIMES)
    texts = frame.astype(dict.fromkeys(frame.select_dtypes("category"), object))
    return texts.replace(TIME_OF_A_LOG, "", regex=True)


@pytest.mark.parametrize(
    ("command", "kills", "most_seconds"),
    [(QUICK, 3, 2.0), (THOROUGH, 100, 8.0)],
    ids=["quick", "thorough"],
)
def test_random_kills_change_no_table_and_leave_nothing(
    root: Path, command: tuple[str, ...], kills: int, most_seconds: float
) -> None:
    chaos, memory = Chaos(command, most_seconds, seed=5), set(SHARED_MEMORY.iterdir())
    whole, rounds = place(root, "w"), 0
    chaos.complete(whole)
    assert (chaos.starts, whole.left()) == (1, [])
    chaos.left = kills
    while chaos.left:
        rounds += 1
        disturbed = place(root, f"r{rounds}")
        chaos.complete(disturbed)
        assert disturbed.left() == []
        assert results(disturbed.out) == results(whole.out)
        pd.testing.assert_frame_equal(table(disturbed.out), table(whole.out))
        print(f"{rounds} campaigns, {chaos.starts} starts, killed: {dict(chaos.killed)}")  # noqa: T201  progress
    assert chaos.killed.total() == kills
    assert len(chaos.killed) == min(kills, len(VICTIMS))
    soon_empty(lambda: set(SHARED_MEMORY.iterdir()) - memory, "shared memory after all campaigns")
