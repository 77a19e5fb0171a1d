"""Today's way of comparing: a fresh interpreter for every rank, without oracle, noise floor or verdict."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

from difftest.cases.case import Case
from workers import backends

LONGEST_SECONDS = 120

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
"""What a rank does: it joins the backend and trains."""


def processor_seconds_of(case: Case, name: str) -> float:
    """The processor time of a comparison. A fault may end it early, as it may in a campaign."""
    before, backend = _of_children(), backends.load(name)
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
        end = time.monotonic() + LONGEST_SECONDS
        for rank in ranks:
            with suppress(subprocess.TimeoutExpired):
                rank.wait(max(0.0, end - time.monotonic()))
        for rank in ranks:
            rank.kill()
            rank.wait()
    return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
