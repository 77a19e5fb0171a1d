"""torch_xla on CUDA by way of JAX's PJRT plugin: experimental, and asked for by `PJRT_DEVICE=CUDA`.

torch_xla has no CUDA client of its own since 2.8, but takes any PJRT plugin; JAX's, from `pip install jax-cuda12-pjrt==0.7.1`, is one. With
torch_xla 2.9.0 it was loaded, initialised and asked for a client on a machine without a GPU, which ends with "No visible GPU devices.";
nothing was run on a card. SPMD alone: one process drives all cards.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from difftest.cases.case import Case
from difftest.errors import UsageError
from workers.cards import cards

DEVICE = "CUDA"
PACKAGE, VERSIONS = "jax_plugins", ("xla_cuda13", "xla_cuda12")
LIBRARY = "xla_cuda_plugin.so"


def library() -> Path:
    """JAX's plugin, of the newest CUDA there is. `UsageError` where none is installed."""
    spec = find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or ()
    for found in (Path(folder) / version / LIBRARY for version in VERSIONS for folder in folders):
        if found.exists():
            return found
    msg = f"PJRT_DEVICE is {DEVICE} and no PJRT plugin for it is installed; it is in: pip install jax-cuda12-pjrt==0.7.1"
    raise UsageError(msg)


def fitting(case: Case) -> str:
    """CUDA where the ranks share the cards out evenly, else the CPU. `UsageError` where there is no plugin."""
    library()
    return DEVICE if cards() >= case.world_size and cards() % case.world_size == 0 else "CPU"


def register() -> None:
    """Tells torch_xla of the plugin, before a device is touched."""
    from torch_xla.experimental import plugins

    class Cuda(plugins.DevicePlugin):  # type: ignore[misc]  # torch_xla has no types
        """JAX's plugin, with its own defaults."""

        def library_path(self) -> str:
            """Where torch_xla loads it from."""
            return str(library())

        def client_create_options(self) -> dict[str, Any]:
            """Every visible card, and memory as it is needed: the plugin takes 75 % of each at once by default."""
            return {"preallocate": False}

    plugins.use_dynamic_plugins()
    plugins.register_plugin(DEVICE, Cuda())
