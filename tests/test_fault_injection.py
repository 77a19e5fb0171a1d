"""A campaign whose ranks, zygotes and workers are killed records what an undisturbed one records."""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from real_runs import lineage

from difftest import plugins
from difftest.cases.case import Case
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")
pytest.importorskip("ray", reason="needs ray: pip install 'difftest[cluster]'")

from difftest.campaign.campaign import Campaign  # noqa: E402
from difftest.campaign.run import run  # noqa: E402
from generators.cases import case_at  # noqa: E402
from workers.cluster import dispatch, start  # noqa: E402

BACKEND = "torch_ddp"
CASES = 4
RUNNING_WITHIN_SECONDS = 120.0
LATEST_SECONDS = 0.15
VICTIMS = ("rank", "zygote", "worker")
TIMES = {"started": "", "seconds": 0.0, "campaign": ""}
"""The fields that differ from one campaign to the next."""


class Disturbed:
    """Every other run loses a rank, its zygote or its worker, in turn, at a random moment.

    The repetition of a run is undisturbed.
    """

    def __init__(self, pool: dispatch.Pool, seed: int) -> None:
        self._pool, self._random = pool, random.Random(seed)  # noqa: S311  moments, no secrets
        self._numbers = itertools.count()
        self.killed: Counter[str] = Counter()

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """Runs the case in the pool, and kills one of its processes in every other call."""
        number = next(self._numbers)
        if number % 2:
            return self._pool.execute(case, backend, options)
        done = threading.Event()
        victim = min(VICTIMS, key=lambda name: self.killed[name])  # the kind that was killed least
        arguments = (victim, self._random.uniform(0.0, LATEST_SECONDS), done)
        killer = threading.Thread(target=self._kill, args=arguments)
        killer.start()
        try:
            return self._pool.execute(case, backend, options)
        finally:
            done.set()
            killer.join()

    def _kill(self, victim: str, after: float, done: threading.Event) -> None:
        end = time.monotonic() + RUNNING_WITHIN_SECONDS
        while time.monotonic() < end and not done.is_set():
            for process in psutil.Process().children(recursive=True):
                if processes := lineage(process):
                    time.sleep(after)
                    if not done.is_set() and processes[victim].is_running():
                        processes[victim].kill()
                        self.killed[victim] += 1
                    return
            time.sleep(0.01)


def recorded(
    folder: Path,
    pool: dispatch.Pool,
    execute: Any = None,  # noqa: ANN401  an Execute
) -> tuple[list[Any], dict[str, Any]]:
    """The runs and findings of a small campaign, without times."""
    corpus = Corpus(folder)
    corpus.prepare()
    backends = {BACKEND: plugins.load("workers.backends", BACKEND)}
    campaign = Campaign(name="test", backends=backends, execute=execute or pool.execute, corpus=corpus)
    cases = ((index, case_at(3, index, paths=("data_parallel",), max_world_size=2)) for index in range(CASES))
    trouble = [progress.result.trouble for progress in run(campaign, cases)]
    assert not any(trouble), trouble
    runs = [msgspec.structs.replace(observation, **TIMES) for observation in corpus.observations()]
    return runs, {
        finding.fingerprint: (finding.blame, finding.stable, finding.hits) for finding in corpus.findings()
    }


def test_a_campaign_whose_processes_are_killed_records_the_same(tmp_path: Path) -> None:
    with start.cluster(None, 1) as workers:
        pool = dispatch.Pool(workers)
        undisturbed = recorded(tmp_path / "undisturbed", pool)
        disturbed = Disturbed(pool, seed=11)
        assert recorded(tmp_path / "disturbed", pool, disturbed.execute) == undisturbed
    assert undisturbed[0]
    assert set(disturbed.killed) == set(VICTIMS), disturbed.killed
