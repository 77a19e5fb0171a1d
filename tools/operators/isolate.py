"""Runs work that may end its process: again without what ended it, until it succeeds.

Some of torch's kernels end the process for some values, as a read outside of an operand does, and some do not
return: the loop of a polynomial whose degree is 1e19. The work says what it begins, so that the next process
knows what not to begin.
"""

import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection

CONTEXT = get_context("forkserver")
"""Every process is fresh and begins with what the server has imported."""

LONGEST_SECONDS = 3.0
"""How much time of a CPU what is begun may take; then the process ends."""


class LethalError(RuntimeError):
    """The work may not begin this: it has ended an earlier process."""


class DiedError(Exception):
    """A process ended by an exception, or without having begun anything new."""


@dataclass(frozen=True)
class Journal:
    """What a process begins, as it reports it; `lethal` is what ended earlier processes."""

    report: Callable[[str], object] = lambda _name: None
    lethal: Collection[str] = ()

    def begin(self, name: str) -> None:
        """Says that `name` begins; `LethalError` if that ended an earlier process."""
        if name in self.lethal:
            msg = f"{name} ends the process"
            raise LethalError(msg)
        self.report(name)


def isolated(work: Callable[[Journal, str], bytes], argument: str) -> bytes:
    """The result of `work` in a process of its own; `DiedError` if it cannot be had."""
    lethal = set[str]()
    while True:
        begun, result, status = _attempt(work, argument, lethal)
        if result is not None:
            return result
        if not begun or begun in lethal or status is None or status >= 0:  # no signal: an exception
            msg = f"{argument}: its process ended with status {status}"
            raise DiedError(msg)
        lethal.add(begun)


def _attempt(
    work: Callable[[Journal, str], bytes], argument: str, lethal: Collection[str]
) -> tuple[str, bytes | None, int | None]:
    """What a process began last, its result, and its exit status."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_run, args=(work, argument, tuple(lethal), sender))
    process.start()
    sender.close()
    begun, result = "", None
    try:
        while result is None:
            begun, result = receiver.recv()
    except EOFError:
        pass
    process.join()
    return begun, result, process.exitcode


def _run(
    work: Callable[[Journal, str], bytes], argument: str, lethal: Collection[str], sender: Connection
) -> None:
    def report(name: str) -> None:
        sender.send((name, None))
        signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS)  # its signal ends a process

    sender.send(("", work(Journal(report, lethal), argument)))
