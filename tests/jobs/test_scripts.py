"""A script that runs for a command ends with the command: with its time, or when it is interrupted."""

import time

import pytest

from difftest.ground.errors import NoTimeError, StoppedError
from difftest.jobs.campaign import interruption
from difftest.jobs.filing.script_runs import ending_at, run_script

SLEEPS = "import time; time.sleep(600)"


def test_a_script_is_cut_at_the_end_of_the_time() -> None:
    with ending_at(time.monotonic() + 0.3), pytest.raises(NoTimeError, match="cut at the budget's end"):
        run_script(SLEEPS)
    assert run_script("print('BUG REPRODUCED')").shown, "there is no end any more"


def test_a_script_that_ends_before_the_time_is_not_cut() -> None:
    with ending_at(time.monotonic() + 3600):
        assert run_script("print('not reproduced')").absent


def test_a_script_s_own_time_is_no_end_of_the_command() -> None:
    with ending_at(time.monotonic() + 3600):
        assert run_script(SLEEPS, seconds=0.3).output == "not finished after 0.3 s\n"


def test_a_script_ends_when_the_command_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    interruption.require_uninterrupted()
    monkeypatch.setattr(interruption._interrupted, "is_set", lambda: True)  # noqa: SLF001  a signal came
    with pytest.raises(StoppedError, match="interrupted") as stopped:
        run_script(SLEEPS)
    assert stopped.value.status == interruption.STATUS
