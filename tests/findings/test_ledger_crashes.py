"""A crash has no message of its own: entries of the ledger know it by the native function that crashed."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from own_models import own_case
from shown_operators import cut, entry, failed

from difftest.cases.case import Data
from difftest.cases.options import Act, Start
from difftest.judge.divergence import Divergence, identity
from difftest.judge.outcome import Failure, Symptom
from difftest.judge.stage import Stage

READS_SHARDS = "torch_xla::ShardingUtil::GetShardReplicaAndIndicesForDevices"
EXECUTES = "torch_xla::runtime::PjRtComputationClient::ExecuteReplicated"


LATE = Start(acts=("device", "spmd", "mesh", "seed"))
SEGMENTATION = "Fatal Python error: Segmentation fault"


def crashed(backend: str, kind: str, message: str, function: str) -> Divergence:
    """A rank's crash, in a native function."""
    failure = Failure(
        symptom=Symptom.CRASH, kind=kind, message=message, frame=function, stage=Stage.BACKWARD, step=0
    )
    shown = failed("", Stage.BACKWARD, f"{kind}: {message}")
    return replace(shown, backend=backend, symptom=Symptom.CRASH, cause=identity(failure))


@pytest.mark.parametrize(
    ("backend", "operator", "function", "known"),
    [
        ("xla_spmd", "norm.nuc", READS_SHARDS, True),
        ("xla_annotated", "linalg.svdvals", READS_SHARDS, True),
        ("xla_spmd", "norm.nuc", "torch_xla::anonymous::LabelsToOneHot", False),
        ("xla_spmd", "add", READS_SHARDS, False),
        ("xla_splash", "add", EXECUTES, True),
        ("xla_fsdp", "add", EXECUTES, True),
        ("xla_ddp", "add", EXECUTES, False),
    ],
)
def test_a_segmentation_fault_is_known_by_the_function(
    backend: str, operator: str, function: str, *, known: bool
) -> None:
    shown = crashed(backend, "SIGSEGV", SEGMENTATION, function)
    assert bool(entry(shown, replace(cut(operator), start=LATE))) is known


@pytest.mark.parametrize("acts", [("spmd", "mesh", "device", "seed"), ("mesh", "spmd", "device", "seed")])
@pytest.mark.parametrize("backend", ["xla_splash", "xla_fsdp", "xla_annotated"])
def test_the_crash_of_a_late_start_is_unknown_where_spmd_is_enabled_in_time(
    backend: str, acts: tuple[Act, ...]
) -> None:
    shown = crashed(backend, "SIGSEGV", SEGMENTATION, EXECUTES)
    assert entry(shown, replace(cut("add"), start=LATE))
    assert entry(shown, replace(cut("add"), start=Start(acts=acts))) is None


@pytest.mark.parametrize(("operator", "known"), [("corrcoef", True), ("nn.Conv2d", True), ("add", False)])
def test_a_size_that_another_rank_does_not_expect_is_known_of_what_computes_with_shards(
    operator: str, *, known: bool
) -> None:
    message = "terminate called after throwing an instance of 'gloo::EnforceNotMet'"
    shown = crashed("torch_dtensor", "SIGABRT", message, "gloo::transport::tcp::Pair::prepareRead")
    assert bool(entry(replace(shown, operator=operator), cut(operator))) is known


@pytest.mark.parametrize(
    ("kind", "rows", "known"), [("Conv2d", 7, True), ("Conv2d", 8, False), ("Linear", 7, False)]
)
def test_columns_that_ranks_with_unequal_rows_exchange_are_known_of_a_users_convolution(
    tmp_path: Path, kind: str, rows: int, *, known: bool
) -> None:
    message = "terminate called after throwing an instance of 'gloo::EnforceNotMet'"
    shown = crashed("torch_dtensor", "SIGABRT", message, "gloo::transport::tcp::Pair::prepareRead")
    case = replace(own_case(tmp_path, modules={"": "Net", "head": kind}), data=Data(batch=rows))
    assert bool(entry(replace(shown, stage=Stage.FORWARD), case)) is known
