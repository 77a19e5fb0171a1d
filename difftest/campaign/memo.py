"""A memo of runs: equal runs are made once, however often they are requested."""

import dataclasses
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from difftest.campaign.campaign import ORACLE, Campaign, Execute, RunKey, run_key
from difftest.campaign.case_run import MORE_SAMPLES, CaseResult
from difftest.cases.case import Case
from difftest.judge.outcome import Failure, Outcome, Trace


class Memo:
    """Executes a case on a backend with given options once, and returns that outcome to every later call.

    With `only`, a backend's name, the runs of the other backends are not kept, and neither are this backend's
    failures: a failure of the oracle decides nothing, so it is run again.
    """

    def __init__(self, execute: Execute, only: str = "") -> None:
        self._execute, self._only = execute, only
        self._outcomes: dict[RunKey, Future[Outcome]] = {}
        self._lock = threading.Lock()

    def __call__(self, case: Case, backend: str, options: Mapping[str, str] | None = None) -> Outcome:
        """The outcome that the first caller got.

        An exception of `execute` is not kept: the next call tries again.
        """
        if self._only not in {"", backend}:
            return self._execute(case, backend, options or {})
        key = run_key(case, backend, options or {})
        with self._lock:
            first = key not in self._outcomes
            result = self._outcomes.setdefault(key, Future())
        if first:
            try:
                result.set_result(outcome := self._execute(case, backend, options or {}))
            except BaseException as error:
                self._forget(key)
                result.set_exception(error)
                raise
            if self._only and isinstance(outcome, Failure):
                self._forget(key)
        return result.result()

    def know(self, case: Case, backend: str, options: Mapping[str, str], outcome: Outcome) -> None:
        """Takes an outcome that was had before."""
        had = Future[Outcome]()
        had.set_result(outcome)
        with self._lock:
            self._outcomes.setdefault(run_key(case, backend, options), had)

    def _forget(self, key: RunKey) -> None:
        with self._lock:
            del self._outcomes[key]


def oracle_once(campaign: Campaign, result: CaseResult | None = None) -> Campaign:
    """The campaign, whose oracle runs once for each case from now on.

    It holds these outcomes for as long as it is there. What `result` has of the oracle is not run again: with
    more samples that takes longer than all other runs of a case.
    """
    memo = Memo(campaign.execute, only=ORACLE)
    if result and isinstance(result.precise, Trace):
        memo.know(result.case, ORACLE, MORE_SAMPLES, result.precise)
    return dataclasses.replace(campaign, execute=memo)
