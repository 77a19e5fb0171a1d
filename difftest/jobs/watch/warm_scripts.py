"""Runs the scripts of known faults with one Python: in forks of a warm one, and alone where that surprises.

A script in a fork takes a second, and one that imports torch by itself 5 to 10. What a watch reports was
always shown by a script that ran alone, as a maintainer runs it.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from difftest.findings.faults import KnownScript
from difftest.ground.inherited import by_scripts
from difftest.ground.own_folder import own_folder
from difftest.jobs.filing.script_runs import SECONDS, concluded
from difftest.jobs.watch.script_states import ScriptState, state_of, state_on
from difftest.jobs.watch.warm_python import EndedError, WarmPython, warm_python
from difftest.records.finding import State

ALONE = ("os.fork", "pallas")
"""A script with one of these words needs a Python of its own; others run in a fork of a warm one."""

_TORCH = ("torch", "torch._dynamo", "torch.distributed.tensor")
WARM: Mapping[str, tuple[str, ...]] = {
    "torchax": (*_TORCH, "torchax", "torchax.ops.jtorch"),
    "import jax": ("jax", "jax.extend.core", "jax.interpreters.mlir"),
    "torch_xla": (*_TORCH, "torch_xla"),
    "": _TORCH,
}
"""What a warm Python has imported for the scripts that have a word; the first one counts."""

WARM_SECONDS = 60
"""The longest that a script may take in a fork; one that takes longer runs alone, which has more time."""


def warm_word(text: str) -> str:
    """The word of `WARM` that counts for a script."""
    return next(word for word in WARM if word in text)


class WarmScripts:
    """The scripts of one Python, with the variables that all of them have."""

    def __init__(
        self, python: str, variables: Mapping[str, str], seconds: float, folder: Path, stack: ExitStack
    ) -> None:
        """`folder` is for what they print; `stack` ends the warm Pythons. A script may take `seconds`."""
        self._python, self._variables, self._seconds = python, variables, seconds
        self._folder, self._stack = folder, stack
        self._warm: dict[str, WarmPython | None] = {}

    def state(self, script: KnownScript, expected: State | None) -> ScriptState | None:
        """What the script says; `expected` is what it said before, None where nothing is known.

        None where this machine cannot say.
        """
        if expected is not None and (quick := self._forked(script)) and quick.state == expected:
            return quick
        return state_on(self._python, script, self._variables, self._seconds)

    def _forked(self, script: KnownScript) -> ScriptState | None:
        """What the script says in a fork of a warm Python; None where it needs one of its own."""
        if any(word in script.text for word in ALONE):
            return None
        word = warm_word(script.text)
        if word not in self._warm:
            self._warm[word] = self._stack.enter_context(
                warm_python(WARM[word], self._folder, self._python, {**by_scripts(), **self._variables})
            )
        warm = self._warm[word]
        if warm is None:
            return None
        file = self._folder / "script.py"
        file.write_text(script.text)
        try:
            status, output = warm.run(file, math.ceil(min(WARM_SECONDS, self._seconds)))
        except EndedError:  # it cannot import what the scripts need, say: each says that by itself
            self._warm[word] = None
            return None
        printed = output if status == 0 else ""
        return state_of(concluded(script.text, status, printed, output, script.raises), script)


@contextmanager
def warm_scripts(
    python: str, variables: Mapping[str, str], seconds: float = SECONDS
) -> Iterator[WarmScripts]:
    """Runs scripts with `python`, until the context ends; each may take `seconds`."""
    with own_folder("reproducer") as folder, ExitStack() as stack:
        yield WarmScripts(python, variables, seconds, folder, stack)
