"""A campaign is submitted to a Ray cluster as docs/campaigns.md describes, with token authentication."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from installed_packages import needs

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")
pytest.importorskip(
    "ray.dashboard.modules.job.cli", reason="needs ray[default]: pip install 'difftest[jobs]'"
)

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
START_SECONDS = 180.0
JOB_SECONDS = 300.0
CAMPAIGN = (
    "--cases",
    "1",
    "--paths",
    "data_parallel",
    "--backends",
    "torch_ddp",
    "--max-world-size",
    "2",
    "--twice-every",
    "0",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A cluster of one node: environment variables with its token, and the address of its store."""

    token: Mapping[str, str]
    store: str


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    """A cluster of one node that requires a token; its folder's name is short, as those of sockets must be.

    It has ports of its own: another Ray on this machine may have the usual ones.
    """
    with tempfile.TemporaryDirectory(prefix="dr-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        jobs, agent, clients = _free_ports(3)
        environment = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{jobs}",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # keeps Ray on the loopback interface
            "RAY_raylet_start_wait_time_s": str(int(START_SECONDS)),
        }
        ports = [
            f"--dashboard-port={jobs}",
            f"--dashboard-agent-listen-port={agent}",
            f"--ray-client-server-port={clients}",
            "--port=0",
        ]
        try:
            command = [
                str(BIN / "ray"),
                "start",
                "--head",
                f"--temp-dir={folder}",
                "--num-cpus=1",
                "--disable-usage-stats",
                *ports,
            ]
            subprocess.run(
                command, env=environment, check=True, capture_output=True, timeout=2 * START_SECONDS
            )
            _wait_for_jobs(environment)
            yield Head(token=environment, store=_store(folder))
        finally:
            _end(folder)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as kept:
        sockets = [kept.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


def _of(folder: str) -> list[psutil.Process]:
    """The processes of the Ray cluster in a folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(folder in word for word in process.info["cmdline"] or ())
    ]


def _store(folder: str) -> str:
    """The address at which workers join a cluster: that of its store."""
    (server,) = (process for process in _of(folder) if process.name() == "gcs_server")
    (port,) = {
        connection.laddr.port
        for connection in server.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    return f"127.0.0.1:{port}"


def _end(folder: str) -> None:
    ours = [each for process in _of(folder) for each in (*process.children(recursive=True), process)]
    for process in ours:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(ours, timeout=30)


def _wait_for_jobs(environment: Mapping[str, str]) -> None:
    """Waits until a job that does nothing succeeds: Ray's job server is the last part to start.

    Each job takes seconds of CPU time, so that the first is sent once the server listens.
    """
    end = time.monotonic() + START_SECONDS
    port = int(environment["RAY_API_SERVER_ADDRESS"].rpartition(":")[2])
    while not _listens(port) and time.monotonic() < end:
        time.sleep(0.2)
    while (done := submit(environment, "--", "true")).returncode:
        assert time.monotonic() < end, done.stdout + done.stderr
        time.sleep(1.0)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def submit(environment: Mapping[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    """The result of a job submitted from the project's folder."""
    command = [str(BIN / "ray"), "job", "submit", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=JOB_SECONDS
    )


def submit_run(environment: Mapping[str, str], out: Path) -> "subprocess.CompletedProcess[str]":
    """Submits the documented command with a campaign of one case."""
    return submit(
        environment,
        "--working-dir",
        ".",
        "--",
        "python",
        "-m",
        "difftest",
        "run",
        *CAMPAIGN,
        "--out",
        str(out),
    )


def test_a_submitted_campaign_runs_on_the_cluster_and_leaves_its_reports(head: Head, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    done = submit_run(head.token, out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "succeeded" in done.stdout
    assert json.loads((out / "summary.json").read_text())
    observed = (out / "corpus" / "observations").iterdir()
    assert any('"torch_ddp"' in file.read_text() for file in observed)


@pytest.mark.nightly  # `tests/jobs/test_nightly.py` has the refusal
def test_a_relative_folder_inside_the_job_s_copy_is_refused(head: Head) -> None:
    done = submit_run(head.token, Path("runs/lost"))
    assert done.returncode == 1
    assert "is inside this Ray job's copy of its working directory" in done.stdout


def test_without_the_token_nothing_is_submitted(head: Head, tmp_path: Path) -> None:
    done = submit_run({**head.token, "RAY_AUTH_TOKEN": "0" * 64}, tmp_path / "runs")
    assert done.returncode != 0
    assert not (tmp_path / "runs").exists()


@pytest.mark.nightly
def test_a_campaign_without_the_token_cannot_join_the_cluster(head: Head, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "difftest",
        "run",
        *CAMPAIGN,
        "--address",
        head.store,
        "--out",
        str(tmp_path / "runs"),
    ]
    wrong = {**head.token, "RAY_AUTH_TOKEN": "0" * 64}
    done = subprocess.run(
        command, cwd=ROOT, env=wrong, capture_output=True, text=True, check=False, timeout=JOB_SECONDS
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"cannot join the Ray cluster at {head.store}" in done.stderr
