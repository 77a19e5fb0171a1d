"""The time of a command: when it is over no run begins, and what had no time is recorded as such.

A run that is in flight then may end within `GRACE_SECONDS`; what executes the runs cuts it after that.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence

from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError, NoTimeError
from difftest.judge.outcome import Outcome

GRACE_SECONDS = 20.0
"""How long a run that is in flight when the budget ends may take to end by itself."""

OVER = "the command ended before it"


def until(campaign: Campaign, end: float) -> Campaign:
    """The campaign, which begins no run after the time `end` (monotonic), but raises `NoTimeError`."""
    if end == float("inf"):
        return campaign

    def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        _require_time(end)
        return campaign.execute(case, backend, options)

    def execute_group(
        runs: Sequence[tuple[Case, str]], options: Mapping[str, str]
    ) -> Sequence[Outcome | InfrastructureError]:
        assert campaign.execute_group is not None  # noqa: S101  it is used only where there is one
        _require_time(end)
        return campaign.execute_group(runs, options)

    group = campaign.execute_group and execute_group
    return dataclasses.replace(campaign, execute=execute, execute_group=group)


def _require_time(end: float) -> None:
    if time.monotonic() > end:
        raise NoTimeError(OVER)


class Lacking:
    """Whether a run of a campaign had no time; `campaign` is the one whose runs are looked at."""

    def __init__(self, campaign: Campaign) -> None:
        self.time = False
        self._execute = campaign.execute
        self.campaign = dataclasses.replace(campaign, execute=self._executed)

    def _executed(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        try:
            return self._execute(case, backend, options)
        except NoTimeError:
            self.time = True
            raise
