"""Which versions of packages are installed here, found without importing them."""

from functools import cache
from importlib import metadata

COMPUTING = ("torch", "torch_xla", "torchax", "torch_tpu", "xla-cpu-pjrt", "jax", "jaxlib", "libtpu")
"""The packages on which the numbers of a run depend."""


@cache  # metadata takes 2 ms to read, and every result of a run is checked against it
def version(package: str) -> str | None:
    """The version in the metadata of `package` when first looked up; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def versions(*packages: str) -> dict[str, str]:
    """The versions of those of `packages` that are installed."""
    return {package: release for package in packages if (release := version(package))}
