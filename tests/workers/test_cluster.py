"""Several nodes in one cluster.

Backends run on the nodes that their resources, labels and Python name, and the loss of a node is never a
finding.
"""

import os
import site
import time
import venv
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from installed_packages import needs
from real_runs import DDP, DEADLINE_SECONDS, small_case
from running_ranks import running_ranks

from difftest.ground.errors import NODE_LOST, InfrastructureError, LethalError, UsageError
from difftest.jobs.proof.correct_runs import same_bits
from difftest.judge.outcome import Failure, Symptom, Trace

pytestmark = pytest.mark.slow
needs("torch", reason="needs torch: pip install 'difftest[xla]'")
ray = pytest.importorskip("ray", reason="needs ray: pip install 'difftest[cluster]'")

from ray.cluster_utils import Cluster  # noqa: E402

from workers.cluster import dispatch, start, token  # noqa: E402
from workers.cluster import nodes as of_cluster  # noqa: E402
from workers.cluster.environments import Environment  # noqa: E402
from workers.faults import VARIABLE  # noqa: E402
from workers.isolate import sandbox  # noqa: E402
from workers.torch.devices import SHARE_VARIABLE  # noqa: E402

STARTED = """
import pathlib, sys
with pathlib.Path({file!r}).open("a") as started:
    started.write(" ".join(sys.orig_argv) + chr(10))
"""


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[str, Any]]:
    """A head with a CPU, a node with two pretended GPUs, and a node with four pretended TPU chips."""
    with start.few_processes():
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        gpu = cluster.add_node(num_cpus=2, num_gpus=2, resources={"half": 1})
        tpu = cluster.add_node(num_cpus=2, resources={"TPU": 4, "half": 1}, labels={"kind": "tpu"})
        try:
            with start.cluster(cluster.address, 2):
                yield {
                    "cluster": cluster,
                    "gpu": gpu.node_id,
                    "tpu": tpu.node_id,
                    "head": cluster.head_node.node_id,
                }
        finally:
            cluster.shutdown()


def place(pool: dispatch.Pool, backend: str) -> Any:  # noqa: ANN401  a pair, or one for each node of a group
    """The node and the Python of a free worker for the backend."""
    team = pool.team(backend)
    actor = team.take()
    team.give_back(actor)
    return ray.get(actor.ready.remote())


def test_backends_run_on_the_nodes_with_their_side_s_accelerators(nodes: dict[str, Any]) -> None:
    pool = dispatch.Pool(1, deadline=DEADLINE_SECONDS)
    assert place(pool, DDP)[0] == nodes["gpu"]
    assert place(pool, "xla_spmd")[0] == nodes["tpu"]
    assert isinstance(pool.execute(small_case(), DDP), Trace)
    assert isinstance(pool.execute(small_case(), "oracle"), Trace)


def test_a_label_selects_the_nodes(nodes: dict[str, Any]) -> None:
    pool = dispatch.Pool(1, places=[Environment(backends="torch_*", labels={"kind": "tpu"})])
    assert place(pool, DDP)[0] == nodes["tpu"]


@pytest.mark.usefixtures("nodes")
def test_resources_and_pythons_that_no_node_has_are_reported(tmp_path: Path) -> None:
    lacking = Environment(backends="torch_*", labels={"kind": "quantum"}, seconds_to_place=2.0)
    absent = Environment(backends="xla_*", python=str(tmp_path / "no-python"), seconds_to_place=5.0)
    pool = dispatch.Pool(1, places=[lacking, absent])
    with pytest.raises(
        InfrastructureError,
        match=r"for backends torch_\* \(kind=quantum\) within 2 s: the cluster has .*'TPU': 4.0",
    ):
        pool.execute(small_case(), DDP)
    with pytest.raises(InfrastructureError, match=r"for backends xla_\* within 5 s"):
        pool.execute(small_case(), "xla_spmd")


@pytest.mark.usefixtures("nodes")
def test_workers_on_all_nodes_have_the_devices_that_the_driver_s_user_chose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plain worker, one of an environment and a crew have it, although the nodes started without it."""
    monkeypatch.setenv(SHARE_VARIABLE, "1")
    label, crew = (
        Environment(backends="xla_*", labels={"kind": "tpu"}),
        Environment(backends=DDP, resources={"half": 1}, nodes=2),
    )
    pool = dispatch.Pool(1, deadline=DEADLINE_SECONDS, places=[label, crew])

    def choice(_actor: object) -> str | None:
        return os.environ.get(SHARE_VARIABLE)

    def choices(crew: Any) -> list[str | None]:  # noqa: ANN401
        members = crew._members  # noqa: SLF001
        answers: list[str | None] = ray.get([member.__ray_call__.remote(choice) for member in members])
        return answers

    functions = {"oracle": choice, "xla_spmd": choice, DDP: choices}
    assert [
        ray.get(pool.team(name).take().__ray_call__.remote(function)) for name, function in functions.items()
    ] == [
        "1",
        "1",
        ["1", "1"],
    ]


def test_a_pool_without_a_number_of_workers_grows_with_the_cluster(
    nodes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_cluster, "FRESH_SECONDS", 0.2)
    pool, fixed = dispatch.Pool(1, grows=True, places=[]), of_cluster.Capacity(1, grows=False)
    before = of_cluster.cpus()
    joined = nodes["cluster"].add_node(num_cpus=2)
    try:
        end = time.monotonic() + DEADLINE_SECONDS
        while pool.capacity() < before + 2 and time.monotonic() < end:
            time.sleep(0.1)
        assert (pool.capacity(), fixed()) == (before + 2, 1)
    finally:
        nodes["cluster"].remove_node(joined)


def test_a_cluster_that_answers_strangers_is_refused(
    nodes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = nodes["cluster"].address
    token.require_authentication(address)
    with monkeypatch.context() as with_the_token:
        with_the_token.setattr(token, "STRANGER", 'print("open")')  # as the script ends where it is let in
        with pytest.raises(InfrastructureError, match="takes work from anybody who reaches its port"):
            token.require_authentication(address)
        with_the_token.setenv(token.OPEN_VARIABLE, "1")
        token.require_authentication(address)
    monkeypatch.setenv(token.MODE, "disabled")
    with (
        pytest.raises(UsageError, match="RAY_AUTH_MODE is 'disabled'; allowed: token"),
        token.of_joined_cluster(),
    ):
        pass


@pytest.mark.nightly
@pytest.mark.usefixtures("nodes")
def test_a_backend_runs_under_the_python_that_its_environment_names(tmp_path: Path) -> None:
    """The other environment uses this one's packages, and records the commands that start it."""
    folder, started = tmp_path / "other", tmp_path / "started"
    venv.create(folder, symlinks=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "these.pth").write_text("\n".join(site.getsitepackages()))
    (packages / "sitecustomize.py").write_text(STARTED.format(file=str(started)))
    other = Environment(backends="*@other", python=str(folder / "bin" / "python"))
    pool = dispatch.Pool(1, deadline=DEADLINE_SECONDS, places=[other])
    assert place(pool, f"{DDP}@other")[1] == str(folder)
    pool.require(f"{DDP}@other")
    assert isinstance(pool.execute(small_case(), f"{DDP}@other"), Trace)
    assert place(pool, DDP)[1] != str(folder)
    assert any(
        "workers.zygote" in line and line.startswith(str(folder)) for line in started.read_text().splitlines()
    )


@pytest.mark.nightly
def test_a_node_lost_in_a_run_is_a_lethal_error_and_other_nodes_continue(
    nodes: dict[str, Any],
) -> None:
    cluster = nodes["cluster"]
    node = cluster.add_node(num_cpus=1, resources={"brief": 1})
    pool = dispatch.Pool(1, deadline=60.0, places=[Environment(backends=DDP, resources={"brief": 1})])
    assert place(pool, DDP)[0] == node.node_id
    assert isinstance(pool.execute(small_case(), DDP), Trace)
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(pool.execute, small_case(), DDP, {VARIABLE: "hang"})
        ranks = running_ranks()
        cluster.remove_node(node, allow_graceful=False)
        with pytest.raises(LethalError, match="its node died while the case ran on it") as lost:
            running.result()
    assert lost.value.kind == NODE_LOST
    assert not psutil.wait_procs(ranks, timeout=10)[1], "the ranks end with their node"
    assert isinstance(pool.execute(small_case(), "oracle"), Trace)
    cluster.add_node(num_cpus=1, resources={"brief": 1})
    assert isinstance(pool.execute(small_case(), DDP), Trace), "a node that joins again is used again"


@pytest.mark.nightly
def test_the_ranks_of_a_case_are_shared_by_the_nodes_of_a_group(nodes: dict[str, Any]) -> None:
    cluster = nodes["cluster"]
    pair = {cluster.add_node(num_cpus=1, resources={"pair": 1}).node_id for _ in range(2)}
    pool = dispatch.Pool(1, deadline=60.0, places=[Environment(backends=DDP, resources={"pair": 1}, nodes=2)])
    assert {node for node, _ in place(pool, DDP)} == pair
    pool.require(DDP)
    trace = pool.execute(small_case(3), DDP)
    assert isinstance(trace, Trace), trace
    assert all(set(tensor.pieces) == {0, 1, 2} for tensors in trace.steps for tensor in tensors.values())
    assert same_bits(trace, sandbox.run(small_case(3), DDP)), "two nodes compute the same bits as one"
    assert isinstance(pool.execute(small_case(1), DDP), Trace), "one rank needs one node"
    crash = pool.execute(small_case(3), DDP, {VARIABLE: "segmentation_fault"})
    assert isinstance(crash, Failure)
    assert (crash.symptom, crash.kind) == (Symptom.CRASH, "SIGSEGV")
