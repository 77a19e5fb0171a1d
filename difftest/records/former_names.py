"""What findings of earlier versions call a known fault, and what it is called now.

Until November 2026 the scripts of known faults lay in `tests/upstream/`, several faults in one script,
which took a name as its argument: `tests/upstream/usual_forms_on_dtensor.py mse_loss`.
"""

import json
from functools import lru_cache
from pathlib import Path

FORMER = "tests/upstream/"
"""What names of earlier versions begin with."""


def current_name(upstream: str) -> str:
    """The issue or script that stands for `upstream` now; the same where nothing has replaced it."""
    return names().get(upstream, upstream) if upstream.startswith(FORMER) else upstream


@lru_cache(maxsize=1)
def names() -> dict[str, str]:
    """The names of earlier versions, with the present ones."""
    return dict(json.loads(Path(__file__).with_name("former_names.json").read_text()))
