"""Builds the PJRT plugin in `shim/`: once for each version of its source and of the plugin behind it.

That is OpenXLA's CPU plugin, or JAX's for NVIDIA cards where the user names `PJRT_DEVICE=CUDA`.

It is kept in the user's state (`difftest.ground.state_folder`).
"""

import hashlib
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from difftest.ground.errors import InfrastructureError
from difftest.ground.state_folder import state_folder
from workers.xla import plugin

SOURCES = Path(__file__).with_name("shim")
NAME = "libshim.so"
CPU_PLUGIN = "xla_plugins.xla_cpu_pjrt"
"""The package of OpenXLA's CPU plugin, `xla-cpu-pjrt`: its library, and PJRT's header."""

COMPILERS = ("c++", "g++", "clang++")
OPTIONS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")
SECONDS = 600.0
"""The longest that the compiler may take; it takes 3 s of CPU time."""

MOST_LOG = 2000
"""Characters kept of the compiler's messages, the first ones."""


def cpu_plugin() -> Path | None:
    """The folder of OpenXLA's CPU plugin; None where it is not installed."""
    try:
        spec = find_spec(CPU_PLUGIN)
    except ModuleNotFoundError:  # not even the package that holds it
        return None
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0]) if folders else None


def library() -> Path:
    """The built plugin, which is built if it is not there yet.

    Raises `InfrastructureError` where there is no CPU plugin (whose header it needs) or no compiler, or the
    compiler fails, and `UsageError` where the user names CUDA and there is no plugin for it.
    """
    cpu = cpu_plugin()
    if cpu is None:
        msg = "torch_tpu without a TPU needs OpenXLA's CPU plugin: difftest environments make torch_tpu"
        raise InfrastructureError(msg)
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        msg = f"torch_tpu without a TPU needs a C++ compiler; none of {', '.join(COMPILERS)} is on the PATH"
        raise InfrastructureError(msg)
    on_cards = plugin.chosen()
    behind = plugin.library() if on_cards else cpu / "xla_cpu_pjrt.so"
    command = (
        *(compiler, *OPTIONS, f'-DSHIM_PLUGIN="{behind}"', f"-DSHIM_ON_CARDS={on_cards:d}"),
        f"-I{cpu / 'include'}",
        *map(str, sorted(SOURCES.glob("*.cc"))),
        "-ldl",
    )
    built = state_folder("tpu_shim", _digest(command, behind)) / NAME
    if not built.is_file():
        _compile(command, built)
    return built


def _digest(command: tuple[str, ...], behind: Path) -> str:
    """Of everything that the library is made from; the plugin behind it counts by its name, size and time."""
    there = behind.stat()
    digest = hashlib.sha256(repr((command, there.st_size, there.st_mtime_ns)).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:16]


def _compile(command: tuple[str, ...], built: Path) -> None:
    """Runs the compiler and puts the library in its place, whole or not at all."""
    built.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as folder:
        unfinished = Path(folder) / NAME
        try:
            done = subprocess.run(  # noqa: S603  our own source
                [*command, "-o", str(unfinished)],
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            msg = f"{command[0]}: {error}"
            raise InfrastructureError(msg) from error
        if done.returncode:
            reason = done.stderr.strip()[:MOST_LOG]
            msg = f"{command[0]} cannot compile the PJRT plugin in {SOURCES}: {reason}"
            raise InfrastructureError(msg)
        unfinished.replace(built)
