"""Scripts that run in forks of a Python that has imported torch, as `difftest watch` runs known ones.

A script that starts by itself imports torch in each of its ranks, which takes 10 s of CPU time. That scripts
run alone as they stand, `tests/reports/test_ten_drafts.py` tests with one of each form.
"""

import atexit
import math
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache

from difftest.ground.inherited import by_scripts
from difftest.ground.own_folder import own_folder
from difftest.jobs.filing.script_runs import SECONDS, ScriptRun, concluded, without_gloo
from difftest.jobs.watch.warm_python import WarmPython, warm_python
from difftest.jobs.watch.warm_scripts import WARM, warm_word

_at_exit = ExitStack()
atexit.register(_at_exit.close)


def run_forked(text: str, raises: Sequence[str] = ()) -> ScriptRun:
    """What `difftest.jobs.filing.script_runs.run_script` says of a script, from a fork."""
    status, output = forked(text)
    return concluded(text, status, output, output if status else "", raises)


def forked(text: str) -> tuple[int, str]:
    """The exit status of a script, negative for a signal, and all that it printed."""
    with own_folder("reproducer") as folder:
        file = folder / "reproducer.py"
        file.write_text(text)
        status, output = warm(text).run(file, math.ceil(SECONDS))
        return status, without_gloo(output)


def warm(text: str) -> WarmPython:
    """The Python that has imported what a script needs."""
    return _warm(warm_word(text))


@cache
def _warm(word: str) -> WarmPython:
    """The Python for scripts with this word, which the first of them starts."""
    folder = _at_exit.enter_context(own_folder("reproducer"))
    return _at_exit.enter_context(warm_python(WARM[word], folder, variables=by_scripts()))
