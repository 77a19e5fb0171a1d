"""A program that makes runs where torch_tpu is, for tests that are somewhere else.

Each line of standard input is a JSON object with a case, a backend, options and the stem of files; the
outcome is at that stem when the answer, an empty line, comes. The same zygote serves all.
"""

import json
import sys
from pathlib import Path

from difftest.cases.case import Case
from difftest.records import traces
from workers import backends
from workers.isolate import sandbox

DEADLINE_SECONDS = 240.0


def main() -> None:
    """Answers until standard input ends."""
    for line in sys.stdin:
        wanted = json.loads(line)
        case = Case.from_json(wanted["case"])
        assert backends.load(wanted["backend"]).unsupported(case) is None
        outcome = sandbox.run(case, wanted["backend"], deadline=DEADLINE_SECONDS, options=wanted["options"])
        traces.save(Path(wanted["stem"]), outcome)
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
