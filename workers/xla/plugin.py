"""torch_xla on CUDA by JAX's PJRT plugin: experimental, and requested by `PJRT_DEVICE=CUDA`.

torch_xla has no CUDA client of its own since 2.8, but takes any PJRT plugin; JAX's, from `pip install
jax-cuda12-pjrt==0.7.1`, is one. With torch_xla 2.9.0 it was loaded, initialised and requested to create a
client on a machine without a GPU, which ends with "No visible GPU devices."; nothing was run on a GPU. It
serves SPMD only: one process drives all GPUs.
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from difftest.cases.case import Case
from difftest.ground.errors import UsageError
from workers.gpus import gpu_count

DEVICE = "CUDA"
PACKAGE, VERSIONS = "jax_plugins", ("xla_cuda13", "xla_cuda12")
LIBRARY = "xla_cuda_plugin.so"


def chosen() -> bool:
    """Whether the user names CUDA."""
    return os.environ.get("PJRT_DEVICE") == DEVICE


def library() -> Path:
    """The library of JAX's plugin for the newest CUDA that is installed. `UsageError` where none is."""
    spec = find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or ()
    for file in (Path(folder) / version / LIBRARY for version in VERSIONS for folder in folders):
        if file.exists():
            return file
    msg = (
        f"PJRT_DEVICE is {DEVICE} and no PJRT plugin for it is installed; "
        "it is in: pip install jax-cuda12-pjrt==0.7.1"
    )
    raise UsageError(msg)


def package() -> str:
    """The name of the package that has the library, as `pip` knows it."""
    return f"jax-{library().parent.name.removeprefix('xla_')}-pjrt"


def fitting(case: Case) -> str:
    """CUDA where the ranks divide the GPUs evenly, else the CPU. `UsageError` where there is no plugin."""
    library()
    return DEVICE if gpu_count() >= case.world_size and gpu_count() % case.world_size == 0 else "CPU"


def register() -> None:
    """Registers the plugin with torch_xla, which must happen before a device is touched."""
    from torch_xla.experimental import plugins

    class Cuda(plugins.DevicePlugin):  # type: ignore[misc]  # torch_xla has no types
        """JAX's plugin, with its own defaults."""

        def library_path(self) -> str:
            """Where torch_xla loads it from."""
            return str(library())

        def client_create_options(self) -> dict[str, Any]:
            """Every visible GPU, and memory as it is needed.

            By default the plugin takes 75 % of each GPU's memory at once.
            """
            return {"preallocate": False}

    plugins.use_dynamic_plugins()
    plugins.register_plugin(DEVICE, Cuda())
