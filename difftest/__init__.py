"""difftest: the same training configuration on CUDA and on XLA, and where they part.

`difftest.run`, `difftest.load` and the errors that they raise are the Python API (`difftest.api`), imported
when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from difftest.api import InfrastructureError, UsageError, load, run

__version__ = "0.1.0"
__all__ = ["InfrastructureError", "UsageError", "__version__", "load", "run"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        msg = f"module 'difftest' has no attribute {name!r}"
        raise AttributeError(msg)
    from difftest import api  # noqa: PLC0415  whoever imports a module of difftest does not pay for all of it

    return getattr(api, name)
