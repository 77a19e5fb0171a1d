"""How a reproducer of a run that fails ends: its docstring says so, and nothing in the script catches it."""

import ast
import re
import signal
from dataclasses import dataclass
from typing import Self

HANGS = "Does not end."
FAILS = "Fails by"
HANG_AFTER_SECONDS = 90.0
"""A script that hangs counts as hanging after this time, its imports included."""

_LINE = re.compile(
    rf"^(?:(?P<hangs>{re.escape(HANGS)})|{FAILS} (?P<kind>exit status \d+|[\w.]+)(?:: (?P<needle>.+))?)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class ScriptEnding:
    """The end of a script: an exception, a signal or `exit status N`, and a piece of its message.

    `kind` is the exception's type, the signal's name or the exit status. Without a `needle` the message does
    not count.
    """

    kind: str
    needle: str = ""
    hangs: bool = False

    @classmethod
    def of(cls, script: str) -> Self | None:
        """What a script's docstring says of its end; None where it says nothing."""
        try:
            text = ast.get_docstring(ast.parse(script)) or ""
        except (SyntaxError, ValueError, RecursionError):
            return None
        line = _LINE.search(text)
        if line is None:
            return None
        return cls(line["kind"] or "", line["needle"] or "", hangs=line["hangs"] is not None)

    @property
    def is_signal(self) -> bool:
        """Whether a signal ends the script."""
        return self.kind in signal.Signals.__members__

    @property
    def line(self) -> str:
        """The line of the docstring, escaped as in a string of Python."""
        if self.hangs:
            return HANGS
        text = f"{FAILS} {self.kind}" + (f": {self.needle}" if self.needle else "")
        return text.encode("unicode_escape").decode().replace('"', '\\"')

    def matches(self, status: int, log: str) -> bool:
        """Whether a script that ended with `status` and this standard error shows the fault.

        A rank that dies is named by the exception of the process that started it.
        """
        if self.hangs:
            return False
        if self.is_signal:
            own, of_rank = -signal.Signals[self.kind], f"terminated with signal {self.kind}"
        elif self.kind.startswith("exit status"):
            own = int(self.kind.split()[-1])
            of_rank = f"terminated with exit code {own}"
        else:
            return status != 0 and self.kind in log and self.needle in log
        return of_rank in log or (status == own and self.needle in log)
