"""Models of known faults predict what real runs with these faults give."""

import pytest
from installed_packages import needs
from real_runs import oracle_trace
from samples import DEEP, a_case

from difftest.cases.block import layer
from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.building_block import Arguments
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Placements, Replicate, Shard
from difftest.cases.options import Replication, Spelling
from difftest.findings.ledger import read_ledger
from difftest.ground import plugins
from difftest.ground.clock import utc_today
from difftest.judge.comparator import compare

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers.isolate import sandbox  # noqa: E402

SECONDS = 120.0
IMAGES: Arguments = {"channels": 2, "filters": 2, "side": 4, "kernel": 3, "norm": "none", "pool": "adaptive"}
TARGETS: Arguments = {"vocabulary": 6, "classes": 4, "smoothing": 0.0, "reduction": "mean"}


def of_block(name: str, arguments: Arguments, sequence: int = 0) -> Case:
    """A case of one block before a Linear layer, data parallel over two ranks."""
    block = layer(name, arguments)
    whole: dict[str, Placements] = dict.fromkeys((f"0.{held}" for held in block.held_buffers), (Replicate(),))
    head = Linear(inputs=block.outputs, outputs=3)
    return a_case((block, head), fed=Data(batch=4), sequence=sequence, sharded=whole, path="blocks", seed=1)


def of_norm() -> Case:
    """A case of an RMS norm whose input is sharded by columns, beside which its epsilon is large."""
    layers = (Linear(inputs=4, outputs=8), RMSNorm(width=8))
    return a_case(
        layers,
        mesh=(("tp", 2),),
        batch=(Replicate(),),
        sharded={"0.weight": (Shard(0),), "0.bias": (Shard(0),)},
        fed=Data(batch=4, regime="tiny"),
        path="tensor_parallel",
    )


def of_uneven_norm() -> Case:
    """A case of an RMS norm of five columns, of which one rank has three and the other two."""
    layers = (Linear(inputs=4, outputs=5), RMSNorm(width=5), Linear(inputs=5, outputs=2, bias=False))
    rows = (Shard(0),)
    return a_case(
        layers,
        mesh=(("tp", 2),),
        batch=(Replicate(),),
        sharded={"0.weight": rows, "0.bias": rows, "1.weight": rows},
        path="tensor_parallel",
    )


CASES = {
    "another_mean_square": ("torch_dtensor", of_uneven_norm()),
    "biased_variance": (
        "xla_spmd",
        of_block("batch_norm", {"affine": True, "momentum": 0.125, "train": True, "width": 4}),
    ),
    "cross_entropy_by_rank": (
        "torch_dtensor",
        of_block("cross_entropy", {**TARGETS, "weighted": False, "ignored": True}, sequence=3),
    ),
    "exchanged_columns": ("torch_dtensor", of_block("convolution", IMAGES)),
    "lost_epsilon": ("torch_dtensor", of_norm()),
    "unreduced": ("xla_ddp", a_case(replication=Replication(gradient_as_bucket_view=True))),
    "unreduced/momentum": (
        "xla_replica",
        a_case(training=Training(optimizer="momentum", accumulation=2)),
    ),
    "clipped_apart": (
        "xla_replica",
        a_case(
            (Linear(inputs=8, outputs=8),),
            training=Training(clip_norm=0.25, accumulation=2),
            fed=Data(batch=8),
        ),
    ),
    "stale_batch": (
        "xla_dynamo",
        a_case(DEEP, training=Training(steps=2), fed=Data(batch=8)),
    ),
    "stale_batch/second part": (
        "xla_dynamo",
        a_case(DEEP, training=Training(accumulation=2), fed=Data(batch=8)),
    ),
    "untrained": ("xla_spmd", a_case(training=Training(steps=2), spelling=Spelling(optimizer_before=True))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_known_fault_of_a_real_run_is_predicted_and_known(name: str) -> None:
    backend, case = CASES[name]
    side = plugins.load("workers.backends", backend).SIDE
    actual = sandbox.run(case, backend, deadline=SECONDS)
    divergences = compare(case, backend, side, oracle_trace(case), actual).divergences
    assert divergences, "the fault is not there"
    assert name.partition("/")[0] in divergences[0].predicted, divergences[0].detail
    assert read_ledger().entry(divergences[0], case, utc_today())
