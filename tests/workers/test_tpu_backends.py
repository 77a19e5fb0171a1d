"""torch's ways of parallelism on torch_tpu (TorchTPU on XLA:CPU), against the oracle, in real processes."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from real_runs import oracle_trace
from sample_programs import a_program, an_operator
from sample_scripts import collective_case
from sharded_cases import MEGATRON, S0, R, a_sharded_case
from tpu_made import Runs, needs_torch_tpu

from difftest.campaign.campaign import ORACLE, Campaign
from difftest.campaign.run import run
from difftest.cases.case import Case, Training
from difftest.cases.layout import Mesh
from difftest.cases.options import Spelling
from difftest.ground.errors import UnsupportedError
from difftest.judge.comparator import compare
from difftest.judge.outcome import Outcome, Trace
from difftest.records.corpus import Corpus
from workers import faults
from workers.backends import candidates, load
from workers.isolate import sandbox
from workers.tpu import devices, limits

ADAMW = Training(steps=2, optimizer="adamw")
DATA, SHARDED, TENSOR = (Mesh(((axis, 2),)) for axis in ("dp", "dp_shard", "tp"))
REPLICATED = a_sharded_case(DATA, training=ADAMW)
MEGATRON_OF_TWO = a_sharded_case(
    TENSOR, (R,), {name: (placement,) for name, placement in MEGATRON.items()}, training=ADAMW
)
HOST_FIRST = replace(REPLICATED, spelling=Spelling(host_backward=True))
"""A backward pass on the host makes the process's client, before the session."""
PROGRAM = a_program(an_operator("cumsum"))
CASES = {
    "tpu_ddp": (REPLICATED, HOST_FIRST),
    "tpu_fsdp": (a_sharded_case(SHARDED, parameters={"": (S0,)}, training=ADAMW),),
    "tpu_dtensor": (REPLICATED, MEGATRON_OF_TWO),
    "tpu_tp": (MEGATRON_OF_TWO,),
    "tpu_compile": (REPLICATED,),
}
FAULTS = {
    "tpu_ddp": (
        "gradient_negated",
        "parameter_left_out",
        "broadcast_skipped",
        "updated_twice",
        "update_forgotten",
        "nan_on_one_rank",
        "exception",
        "abort",
        "optimizer_state_lost",
        "wrong_dtype_out",
        "gradient_slightly_off",
        "sum_for_mean",
    ),
    "tpu_fsdp": ("shard_rows_swapped", "gradient_negated"),
    "tpu_dtensor": ("gradient_negated", "update_forgotten"),
}
"""The first of a backend run with every change, the others every night."""

OTHER = "torch_ddp"

of_real_runs = [pytest.mark.slow, pytest.mark.xla, needs_torch_tpu]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    started = Runs(tmp_path_factory.mktemp("runs"))
    yield started
    started.end()


def test_they_run_only_if_named_and_say_what_they_are() -> None:
    for backend in CASES:
        assert backend not in candidates()
        assert list(candidates((backend,))) == [backend]
        assert devices.STAND_IN in load(backend).TITLE


@pytest.mark.parametrize(
    "message",
    [
        "no registered implementation for untyped custom call to tpu_custom_call for Host",
        "failed to serialize StableHLO to plugin version 1.13.3; failed to legalize 'vhlo.composite_v2'",
        "no FFI handler registered for LuDecomposition on a platform Host (canonical host)",
        "no registered implementation for custom call to tpu_custom_call for platform CUDA",
        "no FFI handler registered for LuDecomposition on a platform CUDA (canonical cuda)",
        "host memory allocator is not implemented for this clientFailed to get PJRT host allocator",
        "a required argument is in a failed state",
    ],
)
def test_what_the_stand_in_lacks_is_refused(message: str) -> None:
    """A program's becomes a line of the support table; of other cases it is no finding either."""
    for case, error in ((PROGRAM, NotImplementedError), (REPLICATED, UnsupportedError)):
        with pytest.raises(error, match="in the place of a TPU"), limits.refused(case):
            raise RuntimeError(message)


def test_sends_from_rank_to_rank_are_refused_and_other_collectives_are_not() -> None:
    """They hang on the CPU plugin; a group of one rank sends nothing."""
    for backend in ("tpu_ddp", "tpu_compile"):
        unsupported = load(backend).unsupported
        assert "cannot send from rank to rank" in (unsupported(collective_case("permute")) or "")
        assert unsupported(collective_case("all_to_all")) is None


def test_an_error_of_torch_tpu_itself_stays_what_it_is() -> None:
    error = RuntimeError("shape mismatch")
    with pytest.raises(RuntimeError, match="shape mismatch"), limits.refused(REPLICATED):
        raise error


@pytest.mark.parametrize(
    ("backend", "case"),
    [
        pytest.param(name, case, id=f"{name}-{case.id}", marks=of_real_runs)
        for name in CASES
        for case in CASES[name]
    ],
)
def test_cases_of_two_ranks_agree_with_the_oracle(runs: Runs, backend: str, case: Case) -> None:
    outcome = runs.run(case, backend)
    comparison = compare(case, backend, "xla", oracle_trace(case), outcome)
    assert comparison.verdict == "agree", comparison.divergences[:1]
    assert isinstance(outcome, Trace)
    assert outcome.environment["device"] == devices.STAND_IN
    assert outcome.environment["torch_tpu"]
    assert outcome.events.device == "tpu"


@pytest.mark.parametrize(
    ("backend", "fault"),
    [
        pytest.param(
            name,
            fault,
            id=f"{name}-{fault}",
            marks=[*of_real_runs, *([pytest.mark.nightly] if place else [])],
        )
        for name in FAULTS
        for place, fault in enumerate(FAULTS[name])
    ],
)
def test_a_planted_fault_is_found_and_blamed(runs: Runs, tmp_path: Path, backend: str, fault: str) -> None:
    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        if name == backend:
            return runs.run(case, name, {**options, faults.VARIABLE: fault})
        return oracle_trace(case) if name == ORACLE else sandbox.run(case, name, options=options)

    corpus = Corpus(tmp_path)
    corpus.prepare()
    campaign = Campaign(
        name="planted",
        backends={name: load(name) for name in (backend, OTHER)},
        execute=execute,
        corpus=corpus,
    )
    (progress,) = run(campaign, [(0, CASES[backend][0])])
    found = {(finding.divergence.backend, finding.blame) for finding in progress.new}
    assert found == {(backend, f"xla {faults.all_faults()[fault].blame}")}
