"""The path of context parallelism: what it cuts, and that most of its cases have pieces that meet again."""

from hypothesis import given
from quiet_draws import quietly

from difftest.cases.case import Case
from difftest.cases.layout import Replicate, Shard
from generators.cases import case_at, cases
from workers.backends import torch_cp, torch_cp_gathered, torch_ddp, xla_spmd


@quietly()
@given(cases(paths=("context_parallel",)))
def test_the_sequence_is_cut_over_cp_and_rows_over_the_other_axis(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    cut = dict(zip(case.layout.mesh.names, case.layout.batch, strict=True))
    assert cut.pop("cp") == Shard(1)
    assert {*cut.values()} <= {Shard(0)}
    assert case.layout.sequence_axes == ("cp",)
    assert case.model.sequence
    assert {placements[:-1] for placements in case.layout.parameters.values()} <= {(), (Replicate(),)}


def test_most_cases_run_on_pieces_and_on_annotations() -> None:
    drawn = [case_at(0, index, paths=("context_parallel",), max_world_size=4) for index in range(60)]
    gathered = [case for case in drawn if torch_cp_gathered.unsupported(case) is None]
    assert len(gathered) > 30
    assert {case.layout.replicates for case in gathered} == {False, True}
    assert {case.layout.mesh.names for case in gathered} == {("cp",), ("dp", "cp")}
    assert {torch_ddp.unsupported(case) is None for case in drawn} == {False}
    assert all("Pallas" in (xla_spmd.unsupported(case) or "Pallas") for case in drawn)


def test_a_ring_says_what_it_needs() -> None:
    drawn = [case_at(0, index, paths=("context_parallel",), max_world_size=4) for index in range(60)]
    reasons = " ".join(torch_cp.unsupported(case) or "" for case in drawn)
    assert "takes causal attention" in reasons
    assert "needs the whole" in reasons
