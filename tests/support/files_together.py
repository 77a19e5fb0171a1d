"""Which test files share a process, where several run them. Without xdist it cannot be imported."""

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

SHARED = "forked_scripts"
"""The module that starts Pythons which import torch, JAX and torch_xla, once for all files of a process."""


class FilesTogether(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """The tests of a file stay in a process, and so do those of all files that use `SHARED`."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(self.config.rootpath / nodeid.partition("::")[0])


@cache
def scope(file: Path) -> str:
    """What is the same for files that stay in one process."""
    return SHARED if f"from {SHARED} import" in file.read_text() else str(file)
