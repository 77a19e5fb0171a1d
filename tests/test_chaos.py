"""A campaign of 200 cases under random kills leaves the same tables as an undisturbed one.

Its driver, nodes, workers and child processes are killed.
"""

import contextlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from machines import timeless_tables
from real_runs import lineage

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")
pytest.importorskip("ray", reason="needs ray: pip install 'difftest[cluster]'")

from ray.cluster_utils import Cluster  # noqa: E402

CASES = 200
BETWEEN_SECONDS = (4.0, 16.0)
SEEN_WITHIN_SECONDS = 10.0
VICTIMS = ("driver", "node", "worker", "zygote", "rank")
WHAT = (
    "--backends",
    "torch_dtensor",
    "--paths",
    "data_parallel,tensor_parallel",
    "--max-world-size",
    "2",
    "--workers",
    "2",
)
RUN = (
    sys.executable,
    "-m",
    "difftest",
    "run",
    "--seed",
    "7",
    "--cases",
    str(CASES),
    "--fail-on",
    "never",
    "--json",
    *WHAT,
)
TIMES = ["seconds", "started"]


class Chaos:
    """Kills the kind of process that was killed least, every few seconds while a driver runs.

    It works in the main thread, where Ray starts its nodes.
    """

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._random = cluster, random.Random(seed)  # noqa: S311  moments, no secrets
        self._nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        self.killed: Counter[str] = Counter()

    def summary_of(self, driver: psutil.Popen) -> dict[str, Any] | None:
        """The result of a driver that is disturbed until it ends; None if it failed or left out runs."""
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return summary_of(driver, self._random.uniform(*BETWEEN_SECONDS))
            victim = min(VICTIMS, key=lambda name: (self.killed[name], self._random.random()))
            self.killed[victim] += self._strike(victim, driver)

    def _strike(self, victim: str, driver: psutil.Popen) -> bool:
        """Kills a victim; False if there was none."""
        if victim == "node":
            self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)
            self._nodes.append(self._cluster.add_node(num_cpus=1))
            return True
        process = driver if victim == "driver" else _running(victim)
        with contextlib.suppress(psutil.NoSuchProcess):
            if process is not None:
                process.kill()
                return True
        return False


def _running(victim: str) -> psutil.Process | None:
    """A rank, or its zygote or worker, once one runs; None if none does in time."""
    end = time.monotonic() + SEEN_WITHIN_SECONDS
    while time.monotonic() < end:
        for process in psutil.Process().children(recursive=True):
            if processes := lineage(process):
                return processes[victim]
        time.sleep(0.01)
    return None


def summary_of(process: psutil.Popen, timeout: float | None = None) -> dict[str, Any] | None:
    """The result that a campaign printed; None if it failed or left out runs."""
    output, _ = process.communicate(timeout=timeout)
    if process.returncode:
        return None
    result: dict[str, Any] = json.loads(output)
    return None if result["trouble"] else result


def results(out: Path) -> tuple[Any, ...]:
    """Every run, and the parts of every finding that do not depend on which case or rank ended first."""
    runs, findings = timeless_tables(out / "corpus")
    return runs, [
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


def start(cluster: Cluster, out: Path) -> psutil.Popen:
    return psutil.Popen(
        [*RUN, "--address", cluster.address, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def test_random_kills_change_no_table(tmp_path: Path) -> None:
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        chaos = Chaos(cluster, seed=5)
        assert summary_of(start(cluster, whole))
        while not chaos.summary_of(start(cluster, disturbed)):
            pass
    finally:
        cluster.shutdown()
    print("killed:", dict(chaos.killed))  # noqa: T201  the figure in docs/campaigns.md
    assert min(chaos.killed[victim] for victim in VICTIMS) > 1, chaos.killed
    assert results(disturbed) == results(whole)
    one, other = (pd.read_parquet(out / "table.parquet").drop(columns=TIMES) for out in (disturbed, whole))
    assert len(one.groupby("case")) == CASES
    pd.testing.assert_frame_equal(one, other)
