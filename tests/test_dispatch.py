"""Ray carries the work: what the cluster lacks is said at once, and a lost worker is infrastructure, never a finding."""

from collections.abc import Iterator

import pytest

from difftest import plugins
from difftest.errors import InfrastructureError
from difftest.outcome import Failure, Symptom, Trace

pytestmark = pytest.mark.slow
pytest.importorskip("torch", reason="needs torch: pip install 'difftest[xla]'")
ray = pytest.importorskip("ray", reason="needs ray: pip install 'difftest[cluster]'")

from test_sandbox import DDP, DEADLINE_SECONDS, case  # noqa: E402

from workers import dispatch  # noqa: E402
from workers.faults import VARIABLE  # noqa: E402


@pytest.fixture(scope="module")
def pool() -> Iterator[dispatch.Pool]:
    with dispatch.cluster(None, 1) as workers:
        yield dispatch.Pool(workers, deadline=DEADLINE_SECONDS)


def test_a_run_goes_to_a_worker_and_comes_back(pool: dispatch.Pool) -> None:
    assert isinstance(pool.execute(case(), "oracle"), Trace)


def test_a_crash_in_a_run_is_an_outcome_and_the_worker_lives(pool: dispatch.Pool) -> None:
    failure = pool.execute(case(), DDP, {VARIABLE: "segmentation_fault"})
    assert isinstance(failure, Failure)
    assert failure.symptom is Symptom.CRASH
    assert isinstance(pool.execute(case(), DDP), Trace)


def test_what_the_workers_lack_is_said_at_once(pool: dispatch.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins.load("workers.backends", DDP), "PRELOAD", ("torch", "no_such_framework.part"))
    with pytest.raises(InfrastructureError, match=r"torch_ddp.*no_such_framework.*pip install"):
        pool.require(DDP)


def test_more_workers_than_cpus_are_refused(pool: dispatch.Pool) -> None:
    del pool
    with pytest.raises(InfrastructureError, match="64 workers need 64 CPUs; the cluster has 1"):
        dispatch.Pool(64)


def test_a_lost_worker_is_infrastructure_and_is_replaced(pool: dispatch.Pool) -> None:
    actor = pool._free.get()  # noqa: SLF001  there is no other way to a worker's handle
    ray.kill(actor)
    pool._free.put(actor)  # noqa: SLF001
    with pytest.raises(InfrastructureError, match="a worker was lost"):
        pool.execute(case(), "oracle")
    assert isinstance(pool.execute(case(), "oracle"), Trace)
