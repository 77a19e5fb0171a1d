"""Which PJRT clients a process created: by which library, when, and under which environment. It watches and changes nothing.

torch_xla holds one client a process and tells whether it stands, so it is asked at the begin of every stage. JAX makes its own in one
function, which is wrapped wherever JAX is imported. A JAX client beside torch_xla's is what hangs jobs of several slices unless the
environment tells the TPU's runtime to skip its discovery (pytorch/xla#8812, #8954): torch_xla sets that wherever it calls JAX by itself.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeAlias

from difftest.judge.outcome import Stage

GUARD = "SKIP_MEGASCALE_PJRT_CLIENT"
"""torch_xla's `jax_env_context` sets it to `true`."""

JAX_BRIDGE = "jax._src.xla_bridge"

When: TypeAlias = Callable[[], tuple[Stage, int]]


class Clients:
    """The clients seen so far, in the order they were created; `when` tells the stage and the step a process is in."""

    def __init__(self, when: When) -> None:
        self.seen: list[dict[str, Any]] = []
        self._when = when
        self._looking = threading.Lock()
        if JAX_BRIDGE in sys.modules:
            self._wrap(sys.modules[JAX_BRIDGE])
        else:
            sys.meta_path.insert(0, _Arrival(JAX_BRIDGE, self._wrap))

    def look(self) -> None:
        """Asks torch_xla whether its client stands by now; replicas' threads do so at once, and its client is one."""
        torch_xla = sys.modules.get("torch_xla")
        with self._looking:
            known = any(client["library"] == "torch_xla" for client in self.seen)
            if torch_xla and not known and torch_xla._XLAC._xla_runtime_is_initialized():  # noqa: SLF001  no public way to ask
                self._add("torch_xla", os.environ.get("PJRT_DEVICE", ""), "")

    def _wrap(self, bridge: ModuleType) -> None:
        """Watches `_init_backend`, through which JAX makes every client. One that fails was still a discovery."""
        original = bridge._init_backend  # noqa: SLF001

        def watched(platform: str) -> Any:  # noqa: ANN401  JAX's own type
            self.look()
            self._add("jax", platform, _caller())
            return original(platform)

        bridge._init_backend = watched  # type: ignore[attr-defined]  # noqa: SLF001

    def _add(self, library: str, platform: str, caller: str) -> None:
        stage, step = self._when()
        guarded = os.environ.get(GUARD) == "true"
        self.seen.append(
            {
                "library": library,
                "platform": platform,
                "stage": stage,
                "step": step,
                "guarded": guarded,
                "caller": caller,
            }
        )


class _Arrival(importlib.abc.MetaPathFinder):
    """Hands over a module once it has been imported, and leaves."""

    def __init__(self, name: str, receive: Callable[[ModuleType], None]) -> None:
        self._name, self._receive = name, receive

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """None for every other module; for this one what would be found without us, with a loader that tells us when it is done."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            original, receive = spec.loader.exec_module, self._receive

            def execute(module: ModuleType) -> None:
                original(module)
                receive(module)

            spec.loader.exec_module = execute  # type: ignore[method-assign]
        return spec


def _caller() -> str:
    """The innermost frame outside JAX, `file:function`: who made it create a client."""
    frames = [frame for frame in traceback.extract_stack()[:-2] if "/jax/" not in frame.filename]
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].name}" if frames else ""
