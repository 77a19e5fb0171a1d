"""The outcome of a run on several nodes.

Traces are merged; of several failures it is the one that explains the others.
"""

import dataclasses

import pytest
from samples import a_case, a_failure, candidate

from difftest.errors import InfrastructureError
from difftest.judge.outcome import Sharded, Symptom, Trace
from difftest.judge.stage import Stage

pytest.importorskip("ray", reason="needs ray: pip install 'difftest[cluster]'")

from workers.cluster import actors


def test_ranks_are_cut_into_neighbours() -> None:
    assert actors._shares(8, 2) == [range(4), range(4, 8)]  # noqa: SLF001
    assert actors._shares(5, 2) == [range(3), range(3, 5)]  # noqa: SLF001
    assert actors._shares(1, 4) == [range(1)]  # noqa: SLF001


def test_traces_of_shares_become_one() -> None:
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


def test_a_crash_explains_what_the_other_nodes_saw_of_it() -> None:
    crash = a_failure(Symptom.CRASH, kind="SIGSEGV")
    assert actors.merged([a_failure(Symptom.HANG), a_failure(Symptom.EXCEPTION), crash]) == crash


def test_nodes_that_do_not_meet_are_infrastructure() -> None:
    waiting = a_failure(Symptom.HANG, stage=Stage.BUILD, kind="deadline")
    with pytest.raises(InfrastructureError, match="the nodes of a run did not meet"):
        actors.merged([waiting, waiting])
    assert actors.merged([candidate(a_case()), waiting]) == waiting, (
        "one that met nobody met somebody who finished"
    )
