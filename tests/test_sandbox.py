"""Runs in fresh processes: whatever the ranks do comes out as data, and nothing outlives its run."""

import os
import signal

import psutil
import pytest

from difftest.case import Case, Data, Training
from difftest.errors import InfrastructureError
from difftest.layers import Linear
from difftest.layout import Layout, Mesh, Replicate, Shard
from difftest.model import Model
from difftest.outcome import Failure, Stage, Symptom, Trace
from difftest.selftest import same

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")

from workers import sandbox  # noqa: E402
from workers.faults import VARIABLE, all_faults  # noqa: E402

DEADLINE_SECONDS = 15.0
DDP = "torch_ddp"


def case(world_size: int = 2) -> Case:
    model = Model(layers=(Linear(inputs=4, outputs=4),))
    layout = Layout(mesh=Mesh((("dp", world_size),)), batch=(Shard(0),), parameters=dict.fromkeys(model.parameters(), (Replicate(),)))
    return Case(path="data_parallel", model=model, layout=layout, training=Training(), data=Data(batch=8), seed=1)


def spoiled(fault: str) -> Failure:
    assert fault in all_faults()
    outcome = sandbox.run(case(), DDP, deadline=DEADLINE_SECONDS, options={VARIABLE: fault})
    assert isinstance(outcome, Failure), outcome
    return outcome


@pytest.mark.parametrize(
    ("fault", "symptom", "kind"),
    [
        ("abort", Symptom.CRASH, "SIGABRT"),
        ("segmentation_fault", Symptom.CRASH, "SIGSEGV"),
        ("exception", Symptom.EXCEPTION, "RuntimeError"),
        ("hang", Symptom.HANG, "deadline"),
        ("deadlock", Symptom.HANG, "deadline"),
    ],
)
def test_every_way_to_end_is_data(fault: str, symptom: Symptom, kind: str) -> None:
    failure = spoiled(fault)
    assert (failure.symptom, failure.kind) == (symptom, kind)
    assert failure.stage in (Stage.BACKWARD, Stage.UPDATE)


def test_a_crash_leaves_its_native_signal_in_the_log() -> None:
    assert "Segmentation fault" in spoiled("segmentation_fault").log


def test_a_run_after_a_crash_is_right() -> None:
    spoiled("segmentation_fault")
    assert isinstance(sandbox.run(case(), DDP), Trace)


def test_nothing_outlives_a_run() -> None:
    spoiled("hang")
    children = psutil.Process().children(recursive=True)
    ranks = [child for child in children if child.ppid() != os.getpid() and child.status() != psutil.STATUS_ZOMBIE]
    gone, alive = psutil.wait_procs(ranks, timeout=5)
    assert not alive, gone


def test_a_dead_zygote_is_infrastructure_and_the_next_run_has_a_new_one() -> None:
    sandbox.run(case(), DDP)
    for child in psutil.Process().children():
        if "workers.zygote" in child.cmdline():
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
    try:
        assert isinstance(sandbox.run(case(), DDP), Trace)
    except InfrastructureError:
        assert isinstance(sandbox.run(case(), DDP), Trace)


def test_the_oracle_measures_its_noise() -> None:
    truth = sandbox.run(case(), "oracle")
    assert isinstance(truth, Trace)
    assert len(truth.noise) == len(truth.steps)
    assert truth.events["in_range"]
    alone = case().unsharded().layout.mesh
    for key, deviation in truth.noise[0].items():
        size = abs(truth.steps[0][key].full(alone)).max()
        assert (deviation.full(alone) < 1e-5 * size).all()
        assert deviation.full(alone).max() > 0


def test_the_same_run_twice_gives_the_same_bits() -> None:
    assert same(sandbox.run(case(4), DDP), sandbox.run(case(4), DDP))
