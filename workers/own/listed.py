"""Prints the models that a source has by name, in a process of its own: `python -P -m workers.own.listed hf`.

The answer is one JSON object, `{"names": [...], "version": ..., "example": ...}` or `{"error": ...}`.
"""

import json
import os
import sys
from importlib.metadata import version

from difftest.ground.errors import UsageError
from workers.own import named


def main() -> None:
    """Answers for the source that the first argument names; what packages print goes to standard error."""
    answers = os.dup(1)
    os.dup2(2, 1)
    source = named.load(sys.argv[1])
    answer: dict[str, object]
    try:
        answer = {
            "names": list(source.names()),
            "version": version(source.PACKAGE),
            "example": source.EXAMPLE,
        }
    except UsageError as error:
        answer = {"error": str(error)}
    os.write(answers, json.dumps(answer).encode())


if __name__ == "__main__":
    main()
