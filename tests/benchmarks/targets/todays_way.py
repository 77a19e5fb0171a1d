"""Comparisons an hour beside today's way: a fresh interpreter for every rank, and no verdict.

Ours is a campaign with verdicts, oracle, noise floor, evidence for findings and records on disk, without Ray.
The same number of runs goes on at a time in both. Today's way repeats those comparisons of the campaign that
agree, and has no oracle to compare with. It takes ten minutes.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from benchmarks.targets import Figure
from benchmarks.targets._campaign import campaign, warm
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber
from workers import backends

SEED, FIRST, CASES, INPUTS = 0, 70, 6, 8
WORKERS = os.cpu_count() or 1
LEAST_WITH_ONE, LEAST_WITH_ALL = 20.0, 60.0
LONGEST_SECONDS = 300

RANK = """
import json, os, sys
request = json.loads(sys.argv[1])
os.environ.update(request["environment"])
from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber
from workers import backends
from workers.training.train import train
case = Case.from_json(request["case"])
with backends.load(request["backend"]).session(case, request["rank"], request["rendezvous"]) as session:
    session.replay(lambda joined: train(case, joined, lambda *_: None), session)
"""
"""What a rank of today's way does: it joins the backend and trains."""

Compared: TypeAlias = tuple[Case, str]
"""A case and a backend that agreed with the oracle."""


def figures() -> Iterator[Figure]:
    """With one input of a case, and with several."""
    warm()
    agreed, one = _campaign(1)
    today = _seconds(agreed) / len(agreed)
    yield Figure(f"comparisons an hour / today's way ({today:.1f} s each)", today / one, LEAST_WITH_ONE)
    _, several = _campaign(INPUTS)
    yield Figure(f"the same with {INPUTS} inputs of a case", today / several, LEAST_WITH_ALL)


def _campaign(inputs: int) -> tuple[list[Compared], float]:
    """What agreed in a campaign over the cases, and the seconds that a comparison took."""
    numbers = [CaseNumber(FIRST + index, input=at).recorded for index in range(CASES) for at in range(inputs)]
    agreed, compared, began = list[Compared](), 0, time.monotonic()
    for result in campaign(SEED, numbers, WORKERS):
        compared += len(result.comparisons)
        agreed += [(result.case, name) for name, one in result.comparisons.items() if one.verdict == "agree"]
    return agreed, (time.monotonic() - began) / compared


def _seconds(compared: Sequence[Compared]) -> float:
    """The wall time of today's way."""
    began = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as threads:
        list(threads.map(_in_fresh_interpreters, compared))
    return time.monotonic() - began


def _in_fresh_interpreters(compared: Compared) -> None:
    case, name = compared
    backend = backends.load(name)
    with tempfile.TemporaryDirectory() as folder:
        request = {
            "case": case.to_json().decode(),
            "backend": name,
            "environment": backend.environment(case),
            "rendezvous": f"file://{folder}/rendezvous",
        }
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", RANK, json.dumps({**request, "rank": rank})], stderr=subprocess.DEVNULL
            )
            for rank in range(backend.processes(case))
        ]
        for rank in ranks:
            if rank.wait(LONGEST_SECONDS):
                msg = f"case {case.id} on {name} ended with status {rank.returncode} in a fresh interpreter"
                raise RuntimeError(msg)
