"""The null campaign of references, on one core and without Ray: twins of generated cases.

python -m tools.null_of_references OUT SECONDS SEED [EACH]

One twin in EACH, by default 8, is of a training, the others are of programs of operators. Each runs as in a
campaign, on both references, and with as much noise; what differs is compared again with more. Every twin is
a line of the file OUT, so that the same command goes on where it was cut off. In the end, or with 0 SECONDS,
the summary of OUT is printed.
"""

import dataclasses
import json
import multiprocessing
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax  # noqa: F401  once for all forks
import torch

from difftest.campaign.confirmation import MORE_SAMPLES
from difftest.cases.case import Case
from difftest.cases.twins import twin
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.ground.errors import UnsupportedError
from difftest.jobs.proof.correct_runs import CorrectRun, check_correct_run, null_summary
from difftest.judge.outcome import Trace
from generators.cases import case_at
from workers import backends
from workers.references.definition import COMPUTED, FAILED
from workers.training.train import train

PROGRAMS = "operators"
EACH = 8
"""One twin in so many is of a training."""

TRAININGS = ("features", "tensor_parallel", "features", "blocks", "features", "data_parallel", "blocks")
TRAININGS += ("fully_sharded", "features", "flash_attention")
RANKS = 8
BATCH = 20
"""How many twins share a process, which is forked."""

ORACLE = "oracle"


def drawn(seed: int, number: int, each: int) -> Case:
    """The twin of this number."""
    training, place = divmod(number, each)
    path = PROGRAMS if place else TRAININGS[training % len(TRAININGS)]
    return twin(case_at(seed, number, paths=(path,), max_world_size=RANKS))


def ran(case: Case, backend: str, options: Mapping[str, str] | None = None) -> Trace:
    """A run in this process."""
    os.environ.update(options or {})
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            backends.load(backend).session(case, 0, f"file://{folder}/rendezvous") as session,
        ):
            return session.replay(lambda joined: train(case, joined, lambda *_: None), session)
    finally:
        for name in options or {}:
            del os.environ[name]


def checked(case: Case, seconds: dict[str, float]) -> Iterator[tuple[CorrectRun, str]]:
    """The correct runs of one twin, and what was computed; `seconds` becomes the processor time of each."""
    able = {name: one for name, one in backends.references().items() if not one.unsupported(case)}
    if not able:
        return

    def timed(name: str) -> Trace:
        began = time.process_time()
        trace = ran(case, name)
        seconds[name] = round(time.process_time() - began, 3)
        return trace

    truth = timed(ORACLE)
    entry = partial(read_ledger().entry, case=case, today=utc_today())
    for name, one in able.items():
        try:
            run = timed(name)
        except UnsupportedError as error:
            if str(error).startswith(FAILED):
                raise
            continue  # as a capturable optimizer on the CPU
        row = check_correct_run(case, name, one.SIDE, truth, run, {}, entry)
        if row.false:  # as in a campaign, more noise is measured before a difference is believed
            precise = ran(case, ORACLE, MORE_SAMPLES)
            row = check_correct_run(case, name, one.SIDE, precise, run, {}, entry)
        yield row, run.environment.get(COMPUTED, "")


def line(seed: int, number: int, each: int) -> dict[str, Any]:
    """One line of OUT."""
    case, seconds = drawn(seed, number, each), dict[str, float]()
    own: dict[str, Any] = {"seed": seed, "number": number, "case": case.id}
    try:
        rows = [{**dataclasses.asdict(row), "computed": words} for row, words in checked(case, seconds)]
    except Exception as error:  # noqa: BLE001  whatever fails is counted
        return {**own, "failed": f"{type(error).__name__}: {error}"[:300]}
    calls = sorted({layer.title for layer in case.model.layers}) if case.model.is_program else []
    return {**own, "operators": calls, "seconds": seconds, "rows": rows}


def batch(out: Path, seed: int, each: int, first: int, end: float) -> None:
    """Checks twins from one number on, in this process, and adds their lines."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with out.open("a") as file:
        for number in range(first, first + BATCH):
            if time.monotonic() < end:
                file.write(json.dumps(line(seed, number, each)) + "\n")
                file.flush()


def lines(out: Path) -> list[dict[str, Any]]:
    """Those that are there."""
    return [json.loads(text) for text in out.read_text().splitlines()] if out.exists() else []


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a null campaign says, the twins by kind, and the processor time."""
    checks = [
        CorrectRun(**{k: v for k, v in row.items() if k != "computed"})
        for at in rows
        for row in at.get("rows", ())
    ]
    compared = [at for at in rows if at.get("rows")]
    seconds = Counter[str]()
    for at in compared:
        seconds.update(at["seconds"])
    return {
        "twins": len(compared),
        "programs": sum(bool(at["operators"]) for at in compared),
        "operators": len({call for at in compared for call in at["operators"]}),
        "without a definition": sum(at.get("rows") == [] for at in rows),
        "failed": [at for at in rows if "failed" in at],
        "processor seconds": {name: round(value) for name, value in seconds.items()},
        **null_summary(checks),
    }


def main() -> None:
    """Checks twins until the time is over."""
    out, seconds, seed, each = (*sys.argv[1:], str(EACH))[:4]
    check(Path(out), time.monotonic() + float(seconds), int(seed), int(each))
    print(json.dumps(summary(lines(Path(out))), indent=1))


def unchecked(out: Path, seed: int) -> int:
    """The first number of a seed that has no line."""
    return max((at["number"] + 1 for at in lines(out) if at["seed"] == seed), default=0)


def check(out: Path, end: float, seed: int, each: int) -> None:
    """Checks twins from the first number on that has no line, in forks of this process."""
    forks = multiprocessing.get_context("fork")
    while time.monotonic() < end:
        first = unchecked(out, seed)
        child = forks.Process(target=batch, args=(out, seed, each, first, end))
        child.start()
        child.join()
        if child.exitcode:
            died = {"seed": seed, "number": unchecked(out, seed), "failed": f"exit {child.exitcode}"}
            with out.open("a") as file:
                file.write(json.dumps(died) + "\n")


if __name__ == "__main__":
    main()
