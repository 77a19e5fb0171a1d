"""A campaign of 200 cases whose driver, nodes, workers and children are killed at random leaves the tables of an undisturbed one."""

import json
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pandas as pd
import psutil
import pytest
from test_resume import tables

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")
pytest.importorskip("ray", reason="needs ray: pip install 'difftest[cluster]'")

from ray.cluster_utils import Cluster  # noqa: E402
from test_fault_injection import lineage  # noqa: E402

CASES = 200
BETWEEN_SECONDS = (4.0, 16.0)
VICTIMS = ("driver", "node", "worker", "zygote", "rank")
WHAT = ("--backends", "torch_dtensor", "--paths", "data_parallel,tensor_parallel", "--max-world-size", "2", "--workers", "2")
RUN = (sys.executable, "-m", "difftest", "run", "--seed", "7", "--cases", str(CASES), "--fail-on", "never", "--json", *WHAT)
TIMES = ["seconds", "started"]


class Chaos:
    """Kills something every few seconds, whatever was killed least, until it is stopped."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._random = cluster, random.Random(seed)  # noqa: S311  moments, no secrets
        self._nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        self._over, self._thread = threading.Event(), threading.Thread(target=self._rage)
        self.driver: psutil.Popen | None = None
        self.killed: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _rage(self) -> None:
        while not self._over.wait(self._random.uniform(*BETWEEN_SECONDS)):
            victim = min(VICTIMS, key=lambda name: (self.killed[name], self._random.random()))
            self.killed[victim] += self._strike(victim)

    def _strike(self, victim: str) -> bool:
        """Whether there was one to kill."""
        if victim == "node":
            self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)
            self._nodes.append(self._cluster.add_node(num_cpus=1))
            return True
        process = self.driver if victim == "driver" else next((found[victim] for found in _running(self._over)), None)
        if process is None or not process.is_running():
            return False
        process.kill()
        return True


def _running(over: threading.Event) -> Iterator[dict[str, psutil.Process]]:
    """Ranks with their zygotes and workers, as soon as there are some."""
    while not over.wait(0.01):
        for process in psutil.Process().children(recursive=True):
            if found := lineage(process):
                yield found


def told(process: psutil.Popen) -> dict[str, Any] | None:
    """What a campaign said that ended by itself and left out nothing."""
    said, _ = process.communicate()
    if process.returncode:
        return None
    result: dict[str, Any] = json.loads(said)
    return None if result["trouble"] else result


def start(cluster: Cluster, out: Path) -> psutil.Popen:
    return psutil.Popen([*RUN, "--address", cluster.address, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def test_what_is_killed_at_random_changes_no_table(tmp_path: Path) -> None:
    whole, disturbed = tmp_path / "whole", tmp_path / "disturbed"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        chaos = Chaos(cluster, seed=5)
        assert told(start(cluster, whole))
        with chaos:
            chaos.driver = start(cluster, disturbed)
            while not told(chaos.driver):
                chaos.driver = start(cluster, disturbed)
    finally:
        cluster.shutdown()
    print("killed:", dict(chaos.killed))  # noqa: T201  the figure in the README
    assert min(chaos.killed[victim] for victim in VICTIMS) > 1, chaos.killed
    assert tables(disturbed / "corpus") == tables(whole / "corpus")
    one, other = (pd.read_parquet(out / "table.parquet").drop(columns=TIMES) for out in (disturbed, whole))
    assert len(one.groupby("case")) == CASES
    pd.testing.assert_frame_equal(one, other)
