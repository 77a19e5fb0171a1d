"""The time limit of a run that a user sets in the environment."""

import pytest

from difftest.ground.errors import UsageError
from workers import deadlines


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(None, 60), ("90", 90), ("0.5", None), ("soon", None), ("nan", None), ("86401", None)],
)
def test_the_deadline_variable_sets_the_time_limit_of_a_run(
    monkeypatch: pytest.MonkeyPatch, given: str | None, seconds: float | None
) -> None:
    monkeypatch.delenv(deadlines.DEADLINE_VARIABLE, raising=False)
    if given is not None:
        monkeypatch.setenv(deadlines.DEADLINE_VARIABLE, given)
    if seconds:
        assert deadlines.deadline() == seconds
    else:
        with pytest.raises(
            UsageError, match=f"DIFFTEST_DEADLINE is '{given}'; allowed: a number of seconds from 1 to 86400"
        ):
            deadlines.deadline()
