"""Runs that are made once, whoever asks and however often: what does not change from question to question."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TypeAlias

from difftest.campaign.campaign import Execute
from difftest.cases.case import Case
from difftest.judge.outcome import Failure, Outcome

Key: TypeAlias = tuple[str, str, tuple[tuple[str, str], ...]]
"""A case's id, a backend, and the options of a run."""


class Once:
    """Runs every case once on a backend in one way.

    Where one is named `alone`, it is the only one, and what failed on it is asked for again: an oracle's failure tells nothing.
    """

    def __init__(self, execute: Execute, alone: str = "") -> None:
        self._execute, self._alone = execute, alone
        self._asked: dict[Key, Future[Outcome]] = {}
        self._lock = threading.Lock()

    def __call__(self, case: Case, backend: str, options: Mapping[str, str] | None = None) -> Outcome:
        """The outcome, as the first who asked got it; a failure of infrastructure is kept for nobody."""
        if self._alone not in {"", backend}:
            return self._execute(case, backend, options or {})
        key = (case.id, backend, tuple(sorted((options or {}).items())))
        with self._lock:
            mine = key not in self._asked
            asked = self._asked.setdefault(key, Future())
        if mine:
            try:
                asked.set_result(outcome := self._execute(case, backend, options or {}))
            except BaseException as error:
                self._forget(key)
                asked.set_exception(error)
                raise
            if self._alone and isinstance(outcome, Failure):
                self._forget(key)
        return asked.result()

    def _forget(self, key: Key) -> None:
        with self._lock:
            del self._asked[key]
