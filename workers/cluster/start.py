"""Joins a Ray cluster, or starts one on this machine, without the defaults of Ray that disturb a campaign."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray._private import ray_constants
from ray._private import worker as ray_worker
from ray.job_config import JobConfig

from difftest.errors import InfrastructureError
from workers.isolate import environment_variables, zygotes

WITHOUT = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_enable_open_telemetry": "0"}
"""Environment variables that difftest sets for Ray unless the user has set them.

The first keeps Ray from hiding the GPUs from workers that request none. The second turns off its
OpenTelemetry exporters, which outlive `ray.shutdown` (Ray 2.60), fail every ten seconds and log each failure,
even while the process ends, when the logger is already destroyed. Two whole test runs ended in a segmentation
fault that way, one of them with `OpenTelemetryMetricExporter::Export` in its core.
"""

LOCAL_ONLY = {ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"}
"""Makes Ray use the loopback address for its node, as it does on systems where it supports no clusters.

Otherwise it listens on every interface.
"""


class _InstalledModules(JobConfig):  # type: ignore[misc]
    """A job whose workers import what is installed, and a checkout of difftest that is run without it.

    Ray would have them look in the driver's working directory first. That may be a corpus from elsewhere,
    with a file `numpy.py`.
    """

    def _runtime_env_has_working_dir(self) -> bool:
        """Where this holds, Ray adds no folder of the driver to the workers' path."""
        return True


@contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[int]:
    """Joins the cluster at `address`, or the one whose job this process is, or starts one on this machine.

    Yields the number of workers to use: `workers`, or as many as the cluster has CPUs. A cluster that is
    started here listens on the loopback interface only. Raises `InfrastructureError` when there is no cluster
    at the address.
    """
    for name, value in WITHOUT.items():
        os.environ.setdefault(name, value)
    ray_worker.print_to_stdstream = _print_to_stderr
    address = address or os.environ.get(ray_constants.RAY_ADDRESS_ENVIRONMENT_VARIABLE)
    try:
        with contextlib.nullcontext() if address else _local_only():
            own = {} if address else {"num_cpus": workers, "include_dashboard": False}
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level="ERROR",
                job_config=_InstalledModules(_py_driver_sys_path=zygotes.checkout()),
                **own,
            )
    except Exception as error:  # Ray raises a bare Exception when a node is late to start
        msg = f"cannot join the Ray cluster at {address or 'this machine'}: {error}"
        raise InfrastructureError(msg) from error
    try:
        yield workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        ray.shutdown()


_PRINT = ray_worker.print_to_stdstream


def _print_to_stderr(data: dict[str, Any], ignore_prefix: bool) -> None:  # noqa: FBT001  Ray's own signature
    """Replaces Ray's function, which reports lost workers on standard output whatever `log_to_driver` is.

    Standard output belongs to the commands, which print JSON there.
    """
    _PRINT({**data, "is_err": True}, ignore_prefix=ignore_prefix)


@contextmanager
def _local_only() -> Iterator[None]:
    """Makes Ray start for this machine alone.

    Ray reads the switch when it is imported, so its constant is set here; the processes that it starts read
    the environment variable.
    """
    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        with environment_variables.set_to(LOCAL_ONLY):
            yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
