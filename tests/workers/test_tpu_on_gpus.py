"""TorchTPU on a GPU: JAX's plugin takes the CPU plugin's place where `PJRT_DEVICE` requests CUDA."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from samples import a_case
from tpu_made import PYTHON, ROOT

from difftest.cases.flags import UNOPTIMISED, UNOPTIMISED_ANYWHERE, WITHOUT_MLIR
from difftest.cases.options import Spelling
from difftest.ground.errors import InfrastructureError
from workers.backends import torchax
from workers.gpus import gpu_count
from workers.tpu import build, devices
from workers.xla import plugin
from workers.xla.devices import DETERMINISTIC


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty libraries of JAX's plugin and of the CPU plugin, and a compiler that keeps its command."""
    there = tmp_path / "site" / "jax_plugins" / "xla_cuda13" / plugin.LIBRARY
    cpu = tmp_path / "cpu"
    for file in (there, cpu / "xla_cpu_pjrt.so"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    compiler = tmp_path / "bin" / "c++"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/sh\necho "$@" > "$0.said"\nfor last; do :; done\necho built > "$last"\n')
    compiler.chmod(0o755)
    monkeypatch.syspath_prepend(str(there.parents[2]))
    monkeypatch.delitem(sys.modules, "jax_plugins", raising=False)
    monkeypatch.setattr(build, "cpu_plugin", lambda: cpu)
    monkeypatch.setattr(build, "COMPILERS", (str(compiler),))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return compiler.with_name("c++.said")


@pytest.mark.parametrize(
    ("requested", "behind", "on_cards"),
    [("CUDA", f"xla_cuda13/{plugin.LIBRARY}", 1), ("CPU", "xla_cpu_pjrt.so", 0)],
)
def test_the_plugin_behind_ours_is_the_one_of_the_requested_device(
    plugins: Path, monkeypatch: pytest.MonkeyPatch, requested: str, behind: str, on_cards: int
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", requested)
    assert build.library().name == build.NAME
    arguments = plugins.read_text()
    assert f'{behind}"' in arguments
    assert f"-DSHIM_ON_CARDS={on_cards}" in arguments


@pytest.mark.usefixtures("plugins")
def test_each_plugin_has_a_library_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    built = set()
    for requested in ("CUDA", "CPU"):
        monkeypatch.setenv("PJRT_DEVICE", requested)
        built.add(build.library())
    assert len(built) == 2


@pytest.mark.usefixtures("plugins")
def test_runs_on_a_gpu_are_deterministic_and_name_the_package_of_the_plugin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    flags = devices.environment()["XLA_FLAGS"]
    assert DETERMINISTIC in flags
    assert devices.KEEPS_NAN not in flags
    assert plugin.package() == "jax-cuda13-pjrt"
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert devices.KEEPS_NAN in devices.environment()["XLA_FLAGS"]


@pytest.mark.usefixtures("plugins")
def test_a_gpus_plugin_is_given_no_flag_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    case = a_case(spelling=Spelling(unoptimised=True))
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    assert WITHOUT_MLIR not in devices.environment(case)["XLA_FLAGS"]
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    assert UNOPTIMISED in devices.environment(case)["XLA_FLAGS"]


@pytest.mark.parametrize(
    ("jaxlib", "without_mlir"), [("0.10.2", True), ("0.11.0", False), ("0.12.0.1", False)]
)
def test_jaxlib_is_given_no_flag_that_it_no_longer_knows(
    monkeypatch: pytest.MonkeyPatch, jaxlib: str, without_mlir: bool
) -> None:
    monkeypatch.setattr("difftest.ground.installed.version", lambda _package: jaxlib)
    given = torchax.environment(a_case(spelling=Spelling(unoptimised=True)))["XLA_FLAGS"]
    assert (WITHOUT_MLIR in given) == without_mlir
    assert UNOPTIMISED_ANYWHERE in given


def test_without_the_cpu_plugin_whose_header_it_needs_nothing_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "cpu_plugin", lambda: None)
    with pytest.raises(InfrastructureError, match="difftest environments make torch_tpu"):
        build.library()


STAND_IN = """
#include <cstddef>
#include "pjrt_c_api.h"
static PJRT_Error* refuse(PJRT_Client_Create_Args*) { return reinterpret_cast<PJRT_Error*>(1); }
struct Newer { PJRT_Api api; void* further[4]; };
static Newer table;
extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  table.api.struct_size = sizeof(Newer);
  table.api.PJRT_Client_Create = refuse;
  table.further[3] = &table;
  return &table.api;
}
"""
READ = """
import ctypes, sys
shim, plugin = (ctypes.CDLL(file) for file in sys.argv[1:])
for library in (shim, plugin):
    library.GetPjrtApi.restype = ctypes.c_void_p
ours, theirs = shim.GetPjrtApi(), plugin.GetPjrtApi()
size = ctypes.c_size_t.from_address(ours).value
last = ctypes.c_void_p.from_address(ours + size - ctypes.sizeof(ctypes.c_void_p)).value
print(size == ctypes.c_size_t.from_address(theirs).value, last == theirs, ours == shim.GetPjrtApi())
"""


@pytest.mark.skipif(build.cpu_plugin() is None, reason="needs the header of xla-cpu-pjrt")
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_a_newer_plugin_keeps_the_functions_that_our_header_does_not_name(tmp_path: Path) -> None:
    cpu = build.cpu_plugin()
    assert cpu is not None
    (tmp_path / "newer.cc").write_text(STAND_IN)
    newer, shim = tmp_path / "newer.so", tmp_path / "shim.so"
    usual = ("c++", *build.OPTIONS, f"-I{cpu / 'include'}")
    subprocess.run([*usual, str(tmp_path / "newer.cc"), "-o", str(newer)], check=True)
    sources = map(str, sorted(build.SOURCES.glob("*.cc")))
    options = (f'-DSHIM_PLUGIN="{newer}"', "-DSHIM_ON_CARDS=1")
    subprocess.run([*usual, *options, *sources, "-ldl", "-o", str(shim)], check=True)
    read = subprocess.run(
        [sys.executable, "-c", READ, str(shim), str(newer)], check=True, capture_output=True, text=True
    )
    assert read.stdout.split() == ["True", "True", "True"]


CLIENT = """
import tempfile
from pathlib import Path
from workers.tpu import preload, start
import torch
start.start(Path(tempfile.mkdtemp()) / "exchange", 1, 0)
torch.zeros(2).to("tpu").cpu()
"""


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.skipif(gpu_count() > 0, reason="tests the message without a GPU")
def test_torch_tpu_loads_the_plugin_and_requests_a_gpu() -> None:
    plugin = "import jax_plugins.xla_cuda13"
    if PYTHON is None or subprocess.run([PYTHON, "-c", plugin], check=False, capture_output=True).returncode:
        pytest.skip("no environment with torch_tpu that has jax-cuda13-pjrt")
    environment = {**os.environ, "PJRT_DEVICE": "CUDA", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(PYTHON), "-c", CLIENT], env=environment, capture_output=True, text=True, check=False
    )
    assert "No visible GPU devices" in done.stderr
