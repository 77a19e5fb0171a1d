"""difftest: the same training configuration on CUDA and on XLA, and where they part.

`difftest.run`, `difftest.load` and the errors that they raise are the Python API (`difftest.api`).
`difftest.record` records a user's own training, and `difftest.compare` compares two such runs. Each is
imported when it is first used.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from difftest.api import InfrastructureError, UsageError, load, run
    from difftest.runs.compare import compare
    from workers.runs.recorder import record

__version__ = "0.1.0"
__all__ = ["InfrastructureError", "UsageError", "__version__", "compare", "load", "record", "run"]

_MODULES = {
    "InfrastructureError": "difftest.ground.errors",
    "UsageError": "difftest.ground.errors",
    "compare": "difftest.runs.compare",
    "load": "difftest.api",
    "record": "workers.runs.recorder",
    "run": "difftest.api",
}


class _Lazy(ModuleType):
    """The package, whose names are imported when they are first used.

    Whoever imports a module of difftest, or records a training, does not pay for all of it.
    """

    def __getattr__(self, name: str) -> object:
        if name not in _MODULES:
            msg = f"module 'difftest' has no attribute {name!r}"
            raise AttributeError(msg)
        return getattr(import_module(_MODULES[name]), name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Lazy
