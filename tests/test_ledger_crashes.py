"""A crash has no message of its own: entries of the ledger know it by the native function that crashed."""

import pytest
from msgspec.structs import replace
from shown_operators import cut, entry, failed

from difftest.judge.divergence import identity
from difftest.judge.outcome import Failure, Symptom
from difftest.judge.stage import Stage

READS_SHARDS = "torch_xla::ShardingUtil::GetShardReplicaAndIndicesForDevices"
EXECUTES = "torch_xla::runtime::PjRtComputationClient::ExecuteReplicated"


@pytest.mark.parametrize(
    ("backend", "operator", "function", "known"),
    [
        ("xla_spmd", "norm.nuc", READS_SHARDS, True),
        ("xla_annotated", "linalg.svdvals", READS_SHARDS, True),
        ("xla_spmd", "norm.nuc", "torch_xla::anonymous::LabelsToOneHot", False),
        ("xla_spmd", "add", READS_SHARDS, False),
        ("xla_splash", "add", EXECUTES, True),
        ("xla_ddp", "add", EXECUTES, False),
    ],
)
def test_a_crash_is_known_by_the_function_that_crashed(
    backend: str, operator: str, function: str, *, known: bool
) -> None:
    failure = Failure(
        symptom=Symptom.CRASH,
        kind="SIGSEGV",
        message="Fatal Python error: Segmentation fault",
        frame=function,
        stage=Stage.BACKWARD,
        step=0,
    )
    shown = replace(
        failed("", Stage.BACKWARD, f"SIGSEGV: {failure.message}"),
        backend=backend,
        symptom=Symptom.CRASH,
        cause=identity(failure),
    )
    assert bool(entry(shown, cut(operator))) is known
