"""Runs that are made once, whoever asks: the same outcome for all, and none that failed for want of a machine is kept."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from samples import a_case, a_failure

from difftest.case import Case
from difftest.errors import InfrastructureError
from difftest.examine import ORACLE
from difftest.once import Once
from difftest.outcome import Failure


def test_a_correct_run_is_made_once_whoever_asks() -> None:
    ran: list[tuple[str, str, Mapping[str, str]]] = []

    def execute(case: Case, backend: str, options: Mapping[str, str]) -> Failure:
        ran.append((case.id, backend, options))
        return a_failure()

    once, case = Once(execute), a_case()
    with ThreadPoolExecutor(4) as threads:
        told = list(threads.map(lambda _: once(case, "b", {}), range(8)))
    assert all(outcome is told[0] for outcome in told)
    assert once(case, "b", {"OPTION": "1"}) is not told[0], "another way of running is another run"
    assert len(ran) == 2


def test_a_run_that_infrastructure_spoiled_is_asked_for_again() -> None:
    answers: list[Exception | Failure] = [InfrastructureError("no node"), a_failure()]

    def execute(*_: object) -> Failure:
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    once = Once(execute)
    with pytest.raises(InfrastructureError, match="no node"):
        once(a_case(), "b")
    assert isinstance(once(a_case(), "b"), Failure)


def test_where_one_backend_is_named_the_others_run_as_often_as_asked() -> None:
    ran: list[str] = []

    def execute(_case: Case, backend: str, _options: Mapping[str, str]) -> Failure:
        ran.append(backend)
        return a_failure()

    once = Once(execute, alone=ORACLE)
    for backend in (ORACLE, "b", ORACLE, "b"):
        once(a_case(), backend)
    assert ran == [ORACLE, "b", "b"]
