"""Replicas on XLA: agreement with the oracle, the faults of torch_xla 2.9.0, and unsupported cases.

On CPU the replicas run behind a compile gate.
"""

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import TypeVar

import psutil
import pytest
from installed_packages import skip_without
from samples import a_case, tensor_parallel_case

from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layout import Replicate, Shard
from difftest.cases.options import Replication
from difftest.ground import installed, plugins
from difftest.judge.comparator import Comparison, compare
from difftest.judge.outcome import Failure, Trace
from difftest.judge.stage import Stage
from workers.isolate import sandbox
from workers.xla import devices, replicas

Test = TypeVar("Test", bound=Callable[..., None])

BACKENDS = ("xla_ddp", "xla_replica")
PERCEPTRON = (Linear(inputs=6, outputs=9), Activation(function="tanh"), Linear(inputs=9, outputs=5))
CAUSAL = (
    Embedding(vocabulary=11, width=8),
    Residual(layers=(LayerNorm(width=8), Attention(width=8, heads=4, kv_heads=2))),
    Linear(inputs=8, outputs=11, bias=False, tied=True),
)
BUCKET_VIEW = Replication(gradient_as_bucket_view=True)

backends = pytest.mark.parametrize("backend", BACKENDS)


def real(test: Test) -> Test:
    """Mark a test that runs real replicas."""
    marked: Test = pytest.mark.slow(pytest.mark.xla(skip_without("torch_xla")(test)))
    return marked


def compared(case: Case, backend: str) -> Comparison:
    side = plugins.load("workers.backends", backend).SIDE
    return compare(case, backend, side, sandbox.run(case, "oracle"), sandbox.run(case, backend))


def first(comparison: Comparison) -> tuple[str, Stage, str]:
    divergence = comparison.divergences[0]
    return divergence.check, divergence.stage, divergence.tensor


@real
@backends
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_replicas_agree_with_the_oracle(backend: str, ranks: int) -> None:
    training = Training(optimizer="adam", learning_rate=2**-7, steps=4, clip_norm=0.25)
    case = a_case(PERCEPTRON, mesh=(("dp", ranks),), training=training, fed=Data(batch=6 * ranks))
    comparison = compared(case, backend)
    assert comparison.verdict == "agree", comparison.divergences


@real
@backends
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_agree_with_the_oracle(backend: str, dtype: str) -> None:
    assert compared(a_case(PERCEPTRON, dtype=dtype, training=Training(steps=2)), backend).verdict == "agree"


@real
@backends
def test_two_data_axes_and_a_replicating_one_agree_with_the_oracle(backend: str) -> None:
    axes, batch = (("dp_replicate", 2), ("dp_shard", 1), ("tp", 2)), (Shard(0), Shard(0), Replicate())
    assert (
        compared(
            a_case(PERCEPTRON, mesh=axes, batch=batch, training=Training(accumulation=2)), backend
        ).verdict
        == "agree"
    )


@real
@pytest.mark.parametrize("backend", ["torch_ddp", "xla_ddp"])
@pytest.mark.parametrize(
    "options",
    [
        Replication(find_unused_parameters=True, own_weights=True),
        Replication(static_graph=True, no_sync=False, bucket_cap_mb=2**-12),
        Replication(broadcast_buffers=False, no_sync=False),
    ],
)
def test_the_wrapper_obeys_its_options(backend: str, options: Replication) -> None:
    case = a_case(
        PERCEPTRON, training=Training(steps=3, accumulation=2), fed=Data(batch=8), replication=options
    )
    assert compared(case, backend).verdict == "agree"


@real
def test_gradients_that_are_views_of_buckets_are_not_reduced() -> None:
    """pytorch/xla#8396, in torch_xla 2.9.0."""
    case = a_case(PERCEPTRON, mesh=(("dp", 3),), fed=Data(batch=6), replication=BUCKET_VIEW)
    assert first(compared(case, "xla_ddp")) == ("replicas", Stage.BACKWARD, "0.weight")
    assert compared(case, "torch_ddp").verdict == "agree"
    assert compared(case.unsharded(), "xla_ddp").verdict == "agree"


@real
def test_a_tensor_that_is_broadcast_by_itself_is_lost_on_the_other_ranks() -> None:
    """The causal mask is bool, so it has its own bucket in the broadcast; torch_xla 2.9.0 leaves zeros."""
    case = a_case(CAUSAL, sequence=6, training=Training(loss="cross_entropy"))
    assert first(compared(case, "xla_ddp")) == ("loss", Stage.FORWARD, "output")
    spared = a_case(
        CAUSAL,
        sequence=6,
        training=Training(loss="cross_entropy"),
        replication=Replication(broadcast_buffers=False),
    )
    assert compared(spared, "xla_ddp").verdict == "agree"
    assert compared(case, "xla_replica").verdict == "agree"


@real
def test_momentum_uses_accumulated_gradients_before_their_reduction() -> None:
    """In torch_xla 2.9.0 an in-place reduction does not show through `detach()`."""
    training = Training(optimizer="momentum", accumulation=2)
    assert first(compared(a_case(PERCEPTRON, training=training), "xla_replica")) == (
        "replicas",
        Stage.UPDATE,
        "0.weight",
    )
    assert compared(a_case(PERCEPTRON, training=training), "xla_ddp").verdict == "agree"


@real
@backends
def test_two_runs_have_the_same_bits_and_every_rank_its_own_piece(backend: str) -> None:
    one, other = (sandbox.run(a_case(PERCEPTRON, mesh=(("dp", 4),)), backend) for _ in range(2))
    assert isinstance(one, Trace)
    assert isinstance(other, Trace)
    weight, again = (trace.steps[0][Stage.UPDATE, "0.weight"] for trace in (one, other))
    assert sorted(weight.pieces) == [0, 1, 2, 3]
    assert all((weight.pieces[rank] == again.pieces[rank]).all() for rank in range(4))
    assert one.events.graphs[0] >= 1
    assert one.environment["transport"] == "xla"
    assert one.environment["matmul_precision"] == "highest", "it is set before it is recorded"


@real
def test_ranks_that_are_not_the_devices_are_refused_with_the_reason() -> None:
    outcome = sandbox.run(a_case(), "xla_ddp", options={"CPU_NUM_DEVICES": "3"})
    assert isinstance(outcome, Failure)
    assert outcome.message == "the mesh dp=2 has 2 ranks; replicas need as many devices, and there are 3"


@real
@pytest.mark.parametrize("defect", ["parameter_left_out", "sum_for_mean", "first_parts_dropped"])
def test_planted_defects_are_detected(defect: str) -> None:
    case = a_case(PERCEPTRON, training=Training(accumulation=2))
    spoiled = sandbox.run(case, "xla_ddp", options={"DIFFTEST_FAULT": defect})
    assert compare(case, "xla_ddp", "xla", sandbox.run(case, "oracle"), spoiled).verdict == "diverge"


def test_unsupported_replicas_are_refused_with_the_reason() -> None:
    assert replicas.unsupported(a_case()) is None
    assert "shards one" in (replicas.unsupported(tensor_parallel_case()) or "")
    assert "evenly" in (replicas.unsupported(a_case(fed=Data(batch=5))) or "")
    assert replicas.unsupported(a_case(fed=Data(batch=5)).unsharded()) is None
    along = a_case((Embedding(vocabulary=5, width=4),), sequence=4, batch=(Shard(1),))
    assert "sequence" in (replicas.unsupported(along) or "")


@pytest.mark.parametrize(
    ("there", "gated"), [("2.9.0", True), ("2.10.1", True), ("2.5.1", False), ("2.8.0", False)]
)
def test_an_older_torch_xla_without_the_compile_gate_is_unsupported(
    monkeypatch: pytest.MonkeyPatch, there: str, gated: bool
) -> None:
    monkeypatch.setattr(installed, "version", lambda _package: there)
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert (replicas.unsupported(a_case()) is None) is gated
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    assert replicas.unsupported(a_case()) is None, "one process per chip needs no gate"


def test_ranks_are_threads_of_one_process_on_the_cpu_and_processes_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert replicas.processes(a_case()) == 1
    there = replicas.environment(a_case())
    assert (there["CPU_NUM_DEVICES"], there["MASTER_PORT"], there["PJRT_CPU_ASYNC_CLIENT"]) == (
        "2",
        "0",
        "false",
    )
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    assert replicas.processes(a_case()) == 2
    assert "MASTER_PORT" not in replicas.environment(a_case())


@pytest.mark.parametrize(("chips", "processes"), [(2, 2), (4, 1), (1, 1)])
def test_replicas_use_tpu_chips_only_with_one_chip_a_rank(
    monkeypatch: pytest.MonkeyPatch, chips: int, processes: int
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    monkeypatch.setattr(devices, "chips", lambda: chips)
    assert replicas.processes(a_case()) == processes
    assert replicas.environment(a_case())["PJRT_DEVICE"] == ("TPU" if processes == 2 else "CPU")


def listening() -> set[str]:
    """Return the addresses at which the ranks of this process's runs listen."""
    addresses = set[str]()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            addresses |= {
                socket.laddr.ip
                for socket in process.net_connections("inet")
                if socket.status == psutil.CONN_LISTEN
            }
    return addresses


@real
@backends
def test_replicas_listen_only_on_loopback(backend: str) -> None:
    addresses = set[str]()
    with ThreadPoolExecutor(1) as thread:
        run = thread.submit(sandbox.run, a_case(mesh=(("dp", 2),), batch=(Shard(0),)), backend)
        while not run.done():
            addresses |= listening()
            time.sleep(0.02)
    assert isinstance(run.result(), Trace)
    assert not [address for address in addresses if not ip_address(address).is_loopback]
