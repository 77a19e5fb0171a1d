"""Which versions of packages are installed here, and which packages must be; nothing of them is imported."""

from collections.abc import Iterator
from functools import cache
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

COMPUTING = ("torch", "torch_xla", "torchax", "torch_tpu", "xla-cpu-pjrt", "jax", "jaxlib", "libtpu")
"""The packages on which the numbers of a run depend."""

OURS = "difftest"

FOR_DEVELOPERS = ("docs", "test")
"""The extras of this package that no campaign needs."""


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


@cache
def everything() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Every package that is installed at the first call, by canonical name.

    With its version, and those of which it requires one version.
    """
    packages = {}
    for distribution in metadata.distributions():
        about = distribution.metadata  # parsed anew each time
        if name := about["Name"]:
            pins = [
                canonicalize_name(one.name)
                for one in map(Requirement, about.get_all("Requires-Dist") or ())
                if _applies(one, "") and any(each.operator == "==" for each in one.specifier)
            ]
            packages[canonicalize_name(name)] = (about["Version"], tuple(dict.fromkeys(pins)))
    return dict(sorted(packages.items()))


@cache
def required(*packages: str) -> frozenset[str]:
    """These packages and this one with all that they require here, by canonical name, extras left out."""
    names, left = set[str](), [OURS, *packages]
    while left:
        if (name := canonicalize_name(left.pop())) not in names:
            names.add(name)
            left += [requirement.name for requirement in _requirements(name) if _applies(requirement, "")]
    return frozenset(names)


def how_to_install(package: str) -> str:
    """The command that installs `package`: with the extra of this package that brings it, if one does."""
    name = canonicalize_name(package)
    ours = [requirement for requirement in _requirements(OURS) if canonicalize_name(requirement.name) == name]
    extras = (metadata.metadata(OURS).get_all("Provides-Extra") or ()) if ours else ()
    for extra in (one for one in extras if one not in FOR_DEVELOPERS):
        if any(_applies(requirement, extra) for requirement in ours):
            return f"pip install -e '.[{extra}]'"  # in the checkout: no index has this package
    return f"pip install {package}"


def _requirements(package: str) -> Iterator[Requirement]:
    try:
        lines = metadata.requires(package) or ()
    except metadata.PackageNotFoundError:
        return
    yield from map(Requirement, lines)


def _applies(requirement: Requirement, extra: str) -> bool:
    """Whether a package with this extra, or with none, needs the requirement on this machine."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})
