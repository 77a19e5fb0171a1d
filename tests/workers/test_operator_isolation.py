"""The tool that writes the operator table survives operators that end their process."""

import os
import signal

import pytest

from tools.operators.isolate import DiedError, Journal, isolated

pytestmark = pytest.mark.slow  # it starts Python anew


def visit(journal: Journal, deadly: str) -> bytes:
    """The names that were begun without a refusal; the process ends at those in `deadly`."""
    done = []
    for name in "abc":
        try:
            journal.begin(name)
        except RuntimeError:
            continue
        if name in deadly:
            os.kill(os.getpid(), signal.SIGSEGV)
        done.append(name)
    return "".join(done).encode()


def fails(journal: Journal, _argument: str) -> bytes:
    """Begins something and raises."""
    journal.begin("a")
    raise ValueError


def test_what_ends_a_process_is_not_begun_again() -> None:
    assert isolated(visit, "") == b"abc"
    assert isolated(visit, "bc") == b"a"


def test_an_exception_in_the_work_is_no_reason_to_go_on_without_what_it_began() -> None:
    with pytest.raises(DiedError, match="its process ended with status 1"):
        isolated(fails, "")


def test_work_that_dies_without_saying_what_it_began_is_an_error() -> None:
    with pytest.raises(DiedError, match=f"its process ended with status -{int(signal.SIGKILL)}"):
        isolated(dies, "")


def dies(_journal: Journal, _argument: str) -> bytes:
    """Begins nothing and is killed."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
