"""Records which PJRT clients a process creates: by which library, when, and with which environment.

It observes and changes nothing. torch_xla has one client per process and says whether it exists, so it is
asked at the beginning of every stage. JAX creates its clients in one function, which is wrapped wherever JAX
is imported. A JAX client beside torch_xla's makes jobs of several slices hang, unless the environment tells
the TPU's runtime to skip its discovery (pytorch/xla#8812, #8954): torch_xla sets that wherever it calls JAX
itself.
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

from difftest.judge.events import Client
from difftest.judge.stage import Stage

GUARD = "SKIP_MEGASCALE_PJRT_CLIENT"
"""torch_xla's `jax_env_context` sets it to `true`."""

JAX_BRIDGE = "jax._src.xla_bridge"

When: TypeAlias = Callable[[], tuple[Stage, int]]


class Clients:
    """Records the clients of this process in `created`, in the order of their creation.

    `process` is the first rank of the process; `when` gives the stage and the step that the process is in.
    """

    def __init__(self, process: int, when: When) -> None:
        self.created: list[Client] = []
        self._process, self._when = process, when
        self._looking = threading.Lock()
        if JAX_BRIDGE in sys.modules:
            self._wrap(sys.modules[JAX_BRIDGE])
        else:
            sys.meta_path.insert(0, _ImportHook(JAX_BRIDGE, self._wrap))

    @property
    def jax(self) -> bool:
        """Whether JAX has created a client in this process."""
        return any(client.library == "jax" for client in self.created)

    def look(self) -> None:
        """Records torch_xla's client once it exists.

        The threads of replicas call this at the same time, and share one client.
        """
        torch_xla = sys.modules.get("torch_xla")
        with self._looking:
            recorded = any(client.library == "torch_xla" for client in self.created)
            if torch_xla and not recorded and torch_xla._XLAC._xla_runtime_is_initialized():  # noqa: SLF001
                self._add("torch_xla", os.environ.get("PJRT_DEVICE", ""), "")

    def _wrap(self, bridge: ModuleType) -> None:
        """Wraps `_init_backend`, through which JAX makes every client.

        An attempt that fails is recorded too, since it was a discovery.
        """
        original = bridge._init_backend  # noqa: SLF001

        def watched(platform: str) -> Any:  # noqa: ANN401  JAX's own type
            self.look()
            self._add("jax", platform, _caller())
            return original(platform)

        bridge._init_backend = watched  # type: ignore[attr-defined]  # noqa: SLF001

    def _add(self, library: str, platform: str, caller: str) -> None:
        stage, step = self._when()
        guarded = os.environ.get(GUARD) == "true"
        client = Client(
            library=library,
            platform=platform,
            stage=stage,
            step=step,
            guarded=guarded,
            caller=caller,
            process=self._process,
        )
        self.created.append(client)


class _ImportHook(importlib.abc.MetaPathFinder):
    """Passes one module on as soon as it has been imported, and then removes itself."""

    def __init__(self, name: str, receive: Callable[[ModuleType], None]) -> None:
        self._name, self._receive = name, receive

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The usual spec of the awaited module, with a loader that passes the module on; None for others."""
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
    """The innermost frame outside JAX, as `file:function`: the code that made JAX create a client."""
    frames = [frame for frame in traceback.extract_stack()[:-2] if "/jax/" not in frame.filename]
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].name}" if frames else ""
