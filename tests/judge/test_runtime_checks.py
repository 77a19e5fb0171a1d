"""The checks of a run's events rather than its numbers: PJRT clients, compiled graphs, annotations."""

import dataclasses
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from samples import a_case, a_failure, candidate, oracle

from difftest.judge.checks import annotation, recompile, runtime_init
from difftest.judge.comparator import compare
from difftest.judge.divergence import Divergence
from difftest.judge.events import Client, Events, Misplaced
from difftest.judge.measured import measure_run
from difftest.judge.outcome import Symptom
from difftest.judge.stage import Stage
from workers.pjrt_clients import Clients

CASE = a_case()


def a_client(library: str, platform: str = "cpu", **changes: Any) -> Client:  # noqa: ANN401
    usual = {"stage": Stage.BACKWARD, "step": 1, "guarded": False, "caller": ""}
    return Client(library=library, platform=platform, **{**usual, **changes})


def divergences(check: Any, **events: Any) -> list[Divergence]:  # noqa: ANN401
    actual = dataclasses.replace(candidate(CASE), events=Events(**events))
    return list(check.check(measure_run(CASE, "xla_spmd", "xla", oracle(CASE), actual)))


def test_a_wrongly_annotated_parameter_diverges_wherever_it_was_placed() -> None:
    assert divergences(annotation) == divergences(annotation, misplaced={}) == []
    (divergence,) = divergences(
        annotation, misplaced={"0.weight": Misplaced((2, 1), (4, 1)), "0.bias": Misplaced((2,), (4,))}
    )
    assert (
        divergence.detail
        == "step 0, place, 0.weight: its dims are annotated to be cut into [2, 1] pieces, expected [4, 1]"
    )
    assert (divergence.stage, divergence.symptom) == (Stage.PLACE, Symptom.MISMATCH)
    assert (
        msgspec.structs.replace(divergence, path="hybrid", tensor="1.bias").fingerprint
        == divergence.fingerprint
    )


OWN = a_client("torch_xla", "CPU", stage=Stage.BUILD)


def test_one_client_and_guarded_clients_of_jax_are_allowed() -> None:
    assert divergences(runtime_init) == []
    assert divergences(runtime_init, clients=[]) == []
    assert divergences(runtime_init, clients=[OWN]) == []
    assert (
        divergences(
            runtime_init, clients=[OWN, a_client("jax", guarded=True), a_client("jax", "tpu", guarded=True)]
        )
        == []
    )


def test_jax_alone_needs_no_guard() -> None:
    assert divergences(runtime_init, clients=[a_client("jax")]) == []


def test_an_unguarded_client_of_jax_diverges_whichever_came_first() -> None:
    beside = a_client("jax", caller="custom_kernel.py:trace_pallas")
    for clients in ([OWN, beside, a_client("jax", "tpu")], [beside, OWN]):
        (divergence,) = divergences(runtime_init, clients=clients)
        assert "jax creates a cpu client without the guard" in divergence.detail
        assert divergence.detail.endswith("called from custom_kernel.py:trace_pallas")
        assert (divergence.stage, divergence.step) == (Stage.BACKWARD, 1)


def test_the_same_client_twice_diverges_even_when_guarded() -> None:
    guarded = a_client("jax", guarded=True)
    (divergence,) = divergences(runtime_init, clients=[OWN, guarded, guarded, guarded])
    assert "jax creates a second cpu client" in divergence.detail


def test_a_second_client_without_the_guard_is_reported_by_the_guard_first() -> None:
    first, second = divergences(runtime_init, clients=[OWN, a_client("jax", guarded=True), a_client("jax")])
    assert "without the guard" in first.detail
    assert "a second cpu client" in second.detail


def test_a_runtime_divergence_counts_although_the_numbers_agree() -> None:
    actual = dataclasses.replace(candidate(CASE), events=Events(clients=(OWN, a_client("jax"))))
    comparison = compare(CASE, "xla_spmd", "xla", oracle(CASE), actual)
    assert comparison.verdict == "diverge"
    assert [d.check for d in comparison.divergences] == ["runtime_init"]


def test_the_fingerprint_of_an_unguarded_client_does_not_depend_on_the_step() -> None:
    early, late = (divergences(runtime_init, clients=[OWN, a_client("jax", step=step)])[0] for step in (0, 3))
    assert early.fingerprint == late.fingerprint


def test_graphs_may_be_new_until_they_have_settled() -> None:
    assert divergences(recompile) == []
    assert divergences(recompile, graphs=[3, 7, 8, 8, 8]) == []
    assert divergences(recompile, graphs=[2]) == []


def test_a_new_graph_at_a_settled_step_diverges_once() -> None:
    (divergence,) = divergences(recompile, graphs=[3, 5, 7, 9, 11])
    assert divergence.step == 3
    assert divergence.detail.startswith("step 3: 2 new graphs")


def test_neither_check_reports_a_run_that_failed() -> None:
    failed = measure_run(CASE, "xla_spmd", "xla", oracle(CASE), a_failure())
    assert list(runtime_init.check(failed)) == list(recompile.check(failed)) == []


def test_a_process_without_torch_xla_has_no_client() -> None:
    clients = Clients(0, lambda: (Stage.BUILD, 0))
    clients.look()
    assert clients.created == []


def test_threads_that_look_concurrently_record_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of all replicas look for clients when they begin a stage."""

    def initialized() -> bool:
        time.sleep(0.02)  # while the others come
        return True

    bindings = SimpleNamespace(_xla_runtime_is_initialized=initialized)
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(_XLAC=bindings))
    clients = Clients(0, lambda: (Stage.BUILD, 0))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: clients.look(), range(8)))
    assert [client.library for client in clients.created] == ["torch_xla"]
