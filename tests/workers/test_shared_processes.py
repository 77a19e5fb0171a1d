"""Cases that share processes: each gives what it gives alone, and a failure is narrowed to its case."""

from collections.abc import Callable

import msgspec
import pytest
import real_runs
from installed_packages import needs
from real_runs import DEADLINE_SECONDS, small_case
from sample_programs import a_call, a_program

from difftest.cases.case import Case
from difftest.cases.case_number import CaseNumber
from difftest.cases.layers.operator import Items, Operand, Reference
from difftest.cases.layout import Shard
from difftest.ground.errors import InfrastructureError, UnsupportedError
from difftest.jobs.proof.correct_runs import same_bits
from difftest.judge.events import Events
from difftest.judge.outcome import Failure, Outcome, Symptom, Trace
from generators.cases import case_at

pytestmark = [pytest.mark.slow, pytest.mark.xla]
torch = pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")
needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")

from workers.isolate import limits, sandbox  # noqa: E402
from workers.isolate.answers import new_request  # noqa: E402

MATRIX = Operand(shape=(6, 4))
SHARDED = {"0.input": (Shard(0),)}
EXP = a_program(a_call("torch.exp", {"input": MATRIX}), sharded=SHARDED)
SUM = a_program(
    a_call("torch.sum", {"input": MATRIX}, Reference("input"), 1), sharded={"0.input": (Shard(1),)}
)
PRODUCT = a_program(
    a_call("torch.matmul", {"input": MATRIX, "other": Operand(shape=(4, 3))}), sharded=SHARDED, seed=2
)
ALONE = msgspec.structs.replace(EXP, layout=EXP.unsharded().layout)
I0 = a_program(a_call("torch.special.i0", {"input": MATRIX}))
ON_HOST = msgspec.structs.replace(I0, layout=I0.unsharded().layout)
"""torch_xla 2.9.0 has none for XLA."""
RAISES = a_program(a_call("torch.sort", {"input": MATRIX}, Reference("input"), 0), sharded=SHARDED)
LONG = Operand(shape=(1,), dtype="int64", values=(2.0**40,))
LACKS = a_program(a_call("torch.flip", {"input": MATRIX}, Reference("input"), Items((0,))), sharded=SHARDED)
REJECTED = a_program(
    a_call("torch.mm", {"input": MATRIX, "mat2": Operand(shape=(3, 2))}, rejects=True), sharded=SHARDED
)
CRASHES = a_program(
    a_call(
        "torch.segment_reduce",
        {"input": Operand(shape=(4,)), "lengths": LONG},
        Reference("input"),
        "sum",
        options={"lengths": Reference("lengths"), "unsafe": True},
    )
)
"""It reads beyond its operand, since `unsafe` makes torch trust the lengths."""


def together(*cases: Case, backend: str) -> list[Outcome | InfrastructureError]:
    return real_runs.together(cases, backend, deadline=DEADLINE_SECONDS)


def judged(outcome: Outcome | InfrastructureError) -> Events:
    """The events but for the graphs that were compiled: some were already, by a case before."""
    assert isinstance(outcome, Trace), outcome
    return msgspec.structs.replace(outcome.events, graphs=())


@pytest.mark.parametrize("backend", ["torch_dtensor", "xla_spmd"])
def test_a_case_gives_the_same_alone_and_after_others_in_the_same_processes(backend: str) -> None:
    cases = (EXP, ALONE, SUM, small_case(), PRODUCT)
    shared = together(*cases, backend=backend)
    assert [outcome.origin.case for outcome in shared if isinstance(outcome, Trace) and outcome.origin] == [
        case.id for case in cases
    ]
    for case, outcome in list(zip(cases, shared, strict=True))[2:]:
        alone = sandbox.run(case, backend)
        assert isinstance(outcome, Trace)
        assert same_bits(alone, outcome), case.id
        assert judged(outcome) == judged(alone)
        assert outcome.environment == alone.environment


@pytest.mark.parametrize("backend", ["xla_spmd", "xla_replica", "xla_ddp"])
def test_inputs_of_one_case_compile_once_and_each_gives_what_it_gives_alone(backend: str) -> None:
    inputs = [case_at(0, CaseNumber(71, input=further), max_world_size=4) for further in range(3)]
    first, *others = together(*inputs, backend=backend)
    assert isinstance(first, Trace)
    assert first.events.graphs[-1]
    for case, outcome in zip(inputs[1:], others, strict=True):
        assert isinstance(outcome, Trace)
        assert {*outcome.events.graphs} == {0}
        assert same_bits(sandbox.run(case, backend), outcome), case.id


@pytest.mark.parametrize("backend", ["xla_spmd", "xla_replica"])
def test_what_one_program_computes_on_the_host_is_no_event_of_the_next(backend: str) -> None:
    on_host, after = together(ON_HOST, ALONE, backend=backend)
    assert judged(on_host).host_operators
    assert judged(after) == judged(sandbox.run(ALONE, backend))
    assert not judged(after).host_operators


BEHIND: dict[str, Callable[[], Case]] = {
    "a layer": small_case,
    "generated": lambda: case_at(0, 71, max_world_size=4),  # every process that runs tests reads this file
    "a program": lambda: EXP,
}


@pytest.mark.parametrize("name", BEHIND)
def test_a_backend_behind_another_compiles_nothing_and_gives_what_it_gives_alone(name: str) -> None:
    case = BEHIND[name]()
    leads, follows = real_runs.each_together([(case, "xla_spmd"), (case, "xla_annotated")])
    assert isinstance(leads, Trace)
    assert isinstance(follows, Trace)
    assert follows.origin
    assert follows.origin.backend == "xla_annotated"
    assert leads.events.graphs[-1]
    assert {*follows.events.graphs} == {0}
    alone = sandbox.run(case, "xla_annotated")
    assert isinstance(alone, Trace)
    assert same_bits(alone, follows)
    assert judged(follows) == judged(alone)
    assert follows.environment == alone.environment


@pytest.mark.parametrize(
    ("spoiled", "backend", "symptom", "kind"),
    [
        (RAISES, "torch_dtensor", Symptom.EXCEPTION, "RuntimeError"),
        (LACKS, "torch_dtensor", Symptom.CAPABILITY, "NotImplementedError"),
        (CRASHES, "oracle", Symptom.CRASH, "SIGSEGV"),
    ],
)
def test_a_failure_is_that_of_its_case_alone_and_the_others_finish(
    spoiled: Case, backend: str, symptom: Symptom, kind: str
) -> None:
    before, failure, after = together(EXP, spoiled, SUM, backend=backend)
    assert isinstance(before, Trace)
    assert isinstance(failure, Failure)
    assert isinstance(after, Trace)
    assert (failure.symptom, failure.kind) == (symptom, kind)
    alone = sandbox.run(spoiled, backend)
    assert isinstance(alone, Failure)
    assert (failure.stage, failure.frame, failure.message, failure.operator, failure.rank) == (
        alone.stage,
        alone.frame,
        alone.message,
        alone.operator,
        alone.rank,
    )
    assert failure.environment["torch"] == torch.__version__
    assert same_bits(before, sandbox.run(EXP, backend))
    assert same_bits(after, sandbox.run(SUM, backend))


def test_programs_that_every_rank_refuses_share_processes_with_those_that_follow() -> None:
    cases = (LACKS, EXP, LACKS, SUM)
    requests = [new_request(case, "torch_dtensor") for case in cases]
    ran = sandbox.run_first(cases, requests, {}, limits.usual(EXP, DEADLINE_SECONDS, {}))
    assert [type(outcome) for outcome in ran] == [Failure, Trace, Failure, Trace]
    assert same_bits(ran[3], sandbox.run(SUM, "torch_dtensor"))


def test_a_program_that_is_refused_on_pjrt_is_the_last_of_its_processes() -> None:
    cases = (REJECTED, EXP)
    requests = [new_request(case, "xla_spmd") for case in cases]
    (refused,) = sandbox.run_first(cases, requests, {}, limits.usual(EXP, DEADLINE_SECONDS, {}))
    assert isinstance(refused, Failure)


def test_the_rank_that_raises_alone_stands_for_the_program_and_no_rank_waits_for_it() -> None:
    """Rank 1 holds nothing of a row; rank 0 loses its connection, or would wait for the whole deadline."""
    operator = a_call("torch.max", {"input": Operand(shape=(1, 3))}, Reference("input"))
    failure, after = together(a_program(operator, sharded=SHARDED), SUM, backend="torch_dtensor")
    assert isinstance(failure, Failure)
    assert (failure.rank, failure.symptom, failure.message[:5]) == (1, Symptom.EXCEPTION, "max()")
    assert isinstance(after, Trace)


def test_a_case_that_is_not_supported_is_an_error_and_the_others_run() -> None:
    refused, ran = together(EXP, small_case(), backend="torch_ddp")
    assert isinstance(refused, UnsupportedError)
    assert isinstance(ran, Trace)
