"""Merging the outcomes of a run's nodes.

Traces are merged; of several failures the one that explains the others is the outcome.
"""

import dataclasses

import pytest
from installed_packages import needs
from samples import a_case, a_failure, candidate

from difftest.ground.errors import InfrastructureError
from difftest.judge.outcome import Sharded, Symptom, Trace
from difftest.judge.stage import Stage

pytestmark = pytest.mark.slow  # Ray alone takes a second to import
needs("ray", reason="needs ray: pip install 'difftest[cluster]'")

from workers.cluster import actors  # noqa: E402


def test_each_node_has_consecutive_ranks() -> None:
    assert actors._shares(8, 2) == [range(4), range(4, 8)]  # noqa: SLF001
    assert actors._shares(5, 2) == [range(3), range(3, 5)]  # noqa: SLF001
    assert actors._shares(1, 4) == [range(1)]  # noqa: SLF001


def test_traces_of_all_nodes_are_merged() -> None:
    whole = candidate(a_case())
    shares = [
        dataclasses.replace(
            whole,
            steps=tuple({key: _only(tensor, rank) for key, tensor in step.items()} for step in whole.steps),
        )
        for rank in (0, 1)
    ]
    outcome = actors.merged(shares)
    assert isinstance(outcome, Trace)
    assert all(set(tensor.pieces) == {0, 1} for step in outcome.steps for tensor in step.values())


def _only(tensor: Sharded, rank: int) -> Sharded:
    return dataclasses.replace(tensor, pieces={rank: tensor.pieces[rank]})


def test_a_crash_takes_precedence_over_hangs_and_exceptions() -> None:
    crash = a_failure(Symptom.CRASH, kind="SIGSEGV")
    assert actors.merged([a_failure(Symptom.HANG), a_failure(Symptom.EXCEPTION), crash]) == crash


def test_a_lost_connection_is_reported_only_where_no_node_failed_by_itself() -> None:
    lost = a_failure(message="NCCL error: remote process exited or there was a network error")
    for cause in (a_failure(Symptom.HANG), a_failure(Symptom.CAPABILITY), a_failure()):
        assert actors.merged([lost, cause]) == cause
    assert actors.merged([candidate(a_case()), lost]) == lost


def test_nodes_that_do_not_connect_are_an_infrastructure_error() -> None:
    waiting = a_failure(Symptom.HANG, stage=Stage.BUILD, kind="deadline")
    with pytest.raises(InfrastructureError, match="the nodes of a run did not meet"):
        actors.merged([waiting, waiting])
    assert actors.merged([candidate(a_case()), waiting]) == waiting, (
        "a node that connected to none was waiting for one that finished"
    )
