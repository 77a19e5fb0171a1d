"""The gate behind which replicas compile, without XLA: which graphs it takes for others than rank 0's."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from workers.xla import gate
from workers.xla.gate import Gate

DEADLINE_SECONDS = 20.0


def two_ranks(
    monkeypatch: pytest.MonkeyPatch, *, before: int, shared: bool = True
) -> list[BaseException | None]:
    """What `sync` raises on rank 0 and rank 1, which are threads.

    Rank 1 compiles `before` graphs while rank 0 waits at the gate. Behind it rank 1 finds rank 0's graph in
    the cache where that is `shared`.
    """
    core = SimpleNamespace(xla_model=SimpleNamespace(wait_device_ops=lambda: None))
    monkeypatch.setitem(sys.modules, "torch_xla.core", core)
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(core=core))
    numbers = threading.local()
    monkeypatch.setattr(gate, "ordinal", lambda: numbers.own)
    compiled = [0]
    barrier = threading.Barrier(2, timeout=DEADLINE_SECONDS)

    def run() -> None:
        compiled[0] += not (numbers.own and shared)

    shut = Gate(run=run, compiled=lambda: (compiled[0], 0), cached=lambda: 0, barrier=barrier)

    def rank(number: int) -> None:
        numbers.own = number
        if number:
            while not barrier.n_waiting:
                time.sleep(0.001)
            compiled[0] += before
        shut.sync()

    with ThreadPoolExecutor(2) as threads:
        started = [threads.submit(rank, number) for number in range(2)]
        return [one.exception(DEADLINE_SECONDS) for one in started]


def test_what_a_rank_compiles_before_the_gate_is_no_other_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator on the host needs its operands, which cuts the graph of its rank in two."""
    assert two_ranks(monkeypatch, before=2) == [None, None]


def test_a_rank_that_compiles_another_graph_than_rank_0_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = two_ranks(monkeypatch, before=0, shared=False)
    assert any("another graph" in str(one) for one in raised)
