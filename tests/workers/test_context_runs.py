"""Context parallelism in real processes: pieces of the sequence train as the whole, and faults show."""

import msgspec
import pytest
from installed_packages import needs
from pieces_of_sequences import GRID, RING, WITHOUT, in_pieces
from real_runs import agrees, oracle_trace, together

from difftest.cases.layout import Mesh
from difftest.ground.errors import InfrastructureError
from difftest.judge.comparator import compare
from difftest.judge.outcome import Trace
from workers import faults
from workers.backends import torch_cp_gathered
from workers.gpus import gpu_count
from workers.isolate import sandbox
from workers.torch.devices import OVER_NCCL, SHARE_VARIABLE

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

GATHERED = "torch_cp_gathered"
AGREEING = {
    "all positions": in_pieces(),
    "the past": in_pieces(sharded=True, causal=True),
    "segments of the past, with shared heads": in_pieces(causal=True, segments=True, kv_heads=1),
    "a bias": in_pieces(bias=True, scale=0.125),
    "rows too": in_pieces(GRID, sharded=True),
    "without attention": in_pieces(model=WITHOUT),
}


def test_pieces_that_gather_keys_train_as_the_whole() -> None:
    assert [name for name, case in AGREEING.items() if torch_cp_gathered.unsupported(case)] == []
    outcomes = together(list(AGREEING.values()), GATHERED)
    wrong = [
        (name, outcome)
        for (name, case), outcome in zip(AGREEING.items(), outcomes, strict=True)
        if isinstance(outcome, InfrastructureError) or not agrees(case, GATHERED, outcome)
    ]
    assert wrong == []


def test_one_device_which_blame_asks_for_has_no_pieces() -> None:
    case = in_pieces(causal=True).unsharded()
    assert agrees(case, GATHERED, outcome := sandbox.run(case, GATHERED)), outcome


@pytest.mark.parametrize("mesh", [RING, GRID], ids=str)
def test_context_parallel_cuts_and_joins_sequences_of_a_model_without_attention(mesh: Mesh) -> None:
    """Its ring of kernels needs GPUs. Everything else of it runs here."""
    case = in_pieces(mesh, WITHOUT)
    assert agrees(case, "torch_cp", outcome := sandbox.run(case, "torch_cp")), outcome


@pytest.mark.cuda
@pytest.mark.skipif(not gpu_count(), reason="needs a GPU")
@pytest.mark.parametrize("backend", ["torch_cp", GATHERED])
@pytest.mark.parametrize("sharded", [False, True])
def test_a_ring_of_gpus_trains_as_the_whole(backend: str, *, sharded: bool) -> None:
    case = msgspec.structs.replace(in_pieces(causal=True, sharded=sharded), dtype="bfloat16")
    outcome = sandbox.run(case, backend, options={SHARE_VARIABLE: OVER_NCCL})
    assert agrees(case, backend, outcome), outcome
    assert isinstance(outcome, Trace)
    assert outcome.environment["device"] != "cpu"


PLANTED = {
    "gathered_without_gradient": AGREEING["all positions"],
    "future_of_the_first_piece": AGREEING["the past"],
    "averaged_along_the_sequence": AGREEING["without attention"],
}


def test_every_planted_fault_of_context_parallelism_has_a_case() -> None:
    own = {name for name, fault in faults.all_faults().items() if fault.paths == ("context_parallel",)}
    assert own == {*PLANTED}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_shows_where_pieces_of_a_sequence_meet(fault: str) -> None:
    planted, case = faults.all_faults()[fault], PLANTED[fault]
    assert planted.reaches(case)
    outcome = sandbox.run(case, GATHERED, options={faults.VARIABLE: fault})
    assert compare(case, GATHERED, "torch", oracle_trace(case), outcome).verdict == "diverge"


@pytest.mark.xla
def test_annotations_cut_a_sequence_too() -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    case = in_pieces(GRID, WITHOUT)
    assert agrees(case, "xla_spmd", outcome := sandbox.run(case, "xla_spmd")), outcome
