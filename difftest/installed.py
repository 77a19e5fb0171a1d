"""Which versions of packages are installed here, without importing them."""

from importlib import metadata

COMPUTING = ("torch", "torch_xla", "torchax", "jax", "jaxlib", "libtpu")
"""What decides the numbers of a run."""


def version(package: str) -> str | None:
    """The version of `package` as its distribution says it; None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def versions(*packages: str) -> dict[str, str]:
    """The versions of those of `packages` that are installed."""
    return {package: found for package in packages if (found := version(package))}
