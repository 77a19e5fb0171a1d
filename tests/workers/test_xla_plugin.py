"""torch_xla on CUDA with JAX's plugin: how it is located, when it is used, and its error without a GPU."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from samples import a_case

from difftest.ground.errors import UsageError
from workers.gpus import gpu_count
from workers.xla import devices, plugin, replicas


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty library of a plugin that seems installed; `PJRT_DEVICE` requests CUDA."""
    package = tmp_path / "jax_plugins" / "xla_cuda12"
    package.mkdir(parents=True)
    library = package / plugin.LIBRARY
    library.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jax_plugins", raising=False)
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    return library


@pytest.mark.skipif(find_spec("jax_plugins") is not None, reason="a plugin is installed")
def test_without_the_plugin_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    with pytest.raises(UsageError, match="pip install jax-cuda12-pjrt"):
        devices.environment(a_case())


@pytest.mark.skipif(find_spec("jax_plugins") is not None, reason="a plugin is installed")
def test_the_plugin_is_located_without_an_import(installed: Path) -> None:
    assert plugin.library() == installed
    assert "jax_plugins.xla_cuda12" not in sys.modules


@pytest.mark.parametrize(("there", "used"), [(0, "CPU"), (1, "CPU"), (2, "CUDA"), (3, "CPU"), (4, "CUDA")])
def test_two_ranks_run_on_gpus_only_if_they_divide_them_evenly(
    monkeypatch: pytest.MonkeyPatch, installed: Path, there: int, used: str
) -> None:
    assert installed
    monkeypatch.setattr(plugin, "gpu_count", lambda: there)
    environment = devices.environment(a_case(mesh=(("dp", 2),)))
    assert environment["PJRT_DEVICE"] == used
    assert ("CPU_NUM_DEVICES" in environment) == (used == "CPU")
    assert (devices.DETERMINISTIC in environment["XLA_FLAGS"]) == (used == "CUDA")


def test_replicas_are_unsupported_with_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    assert "a process per GPU" in (replicas.unsupported(a_case()) or "")


CLIENT = "import torch_xla; from workers.xla import plugin; plugin.register(); print(torch_xla.device())"


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.skipif(
    find_spec("torch_xla") is None or find_spec("jax_plugins") is None,
    reason="needs torch_xla and jax-cuda12-pjrt",
)
@pytest.mark.skipif(gpu_count() > 0, reason="tests the message without a GPU")
def test_torch_xla_loads_the_plugin_and_requests_a_gpu() -> None:
    environment = {**os.environ, "PJRT_DEVICE": "CUDA"}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT], env=environment, capture_output=True, text=True, check=False
    )
    assert "No visible GPU devices" in done.stderr
