"""The null campaign on a machine without Ray, such as a GPU that is lent for minutes, or one with other work.

python -m tools.null_without_ray OUT SECONDS WORKERS BACKENDS PATHS SEED [RANKS]

RANKS is the most that a case has, by default 1. Every row goes to the file OUT as its run ends: a campaign
that is cut off keeps what it has. The summary is printed.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from threading import BoundedSemaphore

from difftest.cases.case import Case
from difftest.findings.ledger import read_ledger
from difftest.ground.errors import StoppedError
from difftest.jobs.ask.case_source import Drawing
from difftest.jobs.proof.correct_runs import CorrectRun, null_summary
from difftest.jobs.proof.null_campaign import NullCampaign
from difftest.judge.outcome import Outcome
from workers.backends import candidates
from workers.isolate import sandbox

MOST_CASES = 300
OVER = "the time is over"


def main() -> None:
    """Checks cases until the time is over."""
    out, seconds, workers, backends, paths, seed, ranks = (*sys.argv[1:], "1")[:7]
    end, free = time.monotonic() + float(seconds), BoundedSemaphore(int(workers))

    def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        with free:
            if time.monotonic() > end:
                raise StoppedError(OVER, status=0)
            return sandbox.run(case, backend, options=options)

    drawing = Drawing(seed=int(seed), model=None, paths=tuple(paths.split(",")), max_world_size=int(ranks))
    cases = ((number, drawing.case(number)) for number in islice(drawing.numbers(MOST_CASES), MOST_CASES))
    campaign = NullCampaign(
        execute=execute, backends=candidates(tuple(backends.split(","))), ledger=read_ledger()
    )
    rows, unchecked = list[CorrectRun](), list[str]()
    with ThreadPoolExecutor(int(workers) + 1) as threads, Path(out).open("w") as file:
        futures = [threads.submit(campaign.check, case) for case in cases]
        for future in as_completed(futures):
            try:
                check = future.result()
            except StoppedError:
                continue
            rows += check.rows
            unchecked += [check.unchecked] if check.unchecked else []
            file.writelines(json.dumps(dataclasses.asdict(row)) + "\n" for row in check.rows)
            file.flush()
    print(json.dumps(null_summary(rows, (), unchecked), indent=1))


if __name__ == "__main__":
    main()
