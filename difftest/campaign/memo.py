"""A memo of runs: equal runs are made once, however often they are requested."""

import dataclasses
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from difftest.campaign.campaign import ORACLE, Campaign, Execute, RunKey, run_key
from difftest.campaign.case_run import CaseResult
from difftest.cases.case import Case
from difftest.judge.outcome import Failure, Outcome, Trace
from difftest.judge.stage import Stage


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


class _OracleOfCase(Memo):
    """The oracle's runs of a case and its variants, such as the case on one device.

    A variant that the oracle computes as the case, to the last bit of every number and its noise, has the
    case's runs with more samples. These take longer than all other runs of a case.
    """

    def __init__(self, execute: Execute, result: CaseResult) -> None:
        super().__init__(execute, only=ORACLE)
        self._case = result.case
        for samples, truth in result.truths.items():
            if isinstance(truth, Trace):
                self.know(result.case, ORACLE, samples.options if samples else {}, truth)

    def __call__(self, case: Case, backend: str, options: Mapping[str, str] | None = None) -> Outcome:
        """As in `Memo`."""
        same = backend == ORACLE and bool(options) and case.id != self._case.id and self._computes_as(case)
        return super().__call__(self._case if same else case, backend, options)

    def _computes_as(self, variant: Case) -> bool:
        one, other = super().__call__(self._case, ORACLE), super().__call__(variant, ORACLE)
        return isinstance(one, Trace) and isinstance(other, Trace) and _bits(one) == _bits(other)


def _bits(truth: Trace) -> list[dict[tuple[Stage, str], bytes]]:
    """Every number of the oracle's trace, and of its noise."""
    tensors = (*truth.steps, *truth.noise)
    return [{key: tensor.pieces[0].tobytes() for key, tensor in step.items()} for step in tensors]


def oracle_once(campaign: Campaign, result: CaseResult | None = None) -> Campaign:
    """The campaign, whose oracle runs once for each case from now on.

    It holds these outcomes for as long as it is there. What `result` has of the oracle is not run again.
    """
    execute = campaign.execute
    memo = _OracleOfCase(execute, result) if result else Memo(execute, only=ORACLE)
    return dataclasses.replace(campaign, execute=memo)
