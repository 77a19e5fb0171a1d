"""Which releases to look at: those newer than what the list knows, or those that the user names."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
from packaging.version import Version

from difftest.findings.faults import NEWEST, release_order
from difftest.findings.flips import JAXLIB
from difftest.ground.errors import UsageError
from difftest.jobs.installed import index

PACKAGES: Mapping[str, str] = {
    name: JAXLIB if name == "jax" else name for name in (*NEWEST, "jax") if name != JAXLIB
}
"""What a user names, with the distribution whose releases count."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Release:
    """A release of a distribution."""

    package: str
    version: str

    @property
    def recipe(self) -> str:
        """The name of its package among the recipes of environments: JAX's, with which jaxlib comes."""
        return "jax" if self.package == JAXLIB else self.package

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def parsed(text: str) -> Release:
    """A release as `torch==2.15.0`; `UsageError` for anything else."""
    name, equals, version = text.partition("==")
    if not (equals and version) or name not in {**PACKAGES, JAXLIB: JAXLIB}:
        allowed = ", ".join(f"{package}==VERSION" for package in PACKAGES)
        msg = f"a release is {text!r}; allowed: {allowed}"
        raise UsageError(msg)
    return Release(package=PACKAGES.get(name, name), version=version)


def newer(packages: Iterable[str], available: Mapping[str, Sequence[str]]) -> tuple[Release, ...]:
    """The releases after the newest that the list knows, of each package from old to new.

    Of those before a final one, as of nightly builds, only the last is of interest.
    """
    return tuple(
        Release(package=package, version=version)
        for package in packages
        for version in _of_interest(available.get(package, ()))
        if release_order(version) > release_order(NEWEST[package])
    )


def _of_interest(versions: Iterable[str]) -> list[str]:
    ordered = sorted(versions, key=release_order)
    final = [version for version in ordered if not Version(version).is_prerelease]
    return final + [version for version in ordered[-1:] if version not in final]


def in_index(packages: Iterable[str], address: str = "") -> dict[str, tuple[str, ...]]:
    """The releases of each package in pip's index, for this Python or a later one; see `index.releases`."""
    pythons = ("", *index.PYTHONS)
    with ThreadPoolExecutor(len(pythons)) as pool:  # pip takes a second for each
        return {
            package: tuple(
                {
                    version: None
                    for versions in pool.map(partial(index.releases, package, address=address), pythons)
                    for version in versions
                }
            )
            for package in packages
        }


def in_file(file: Path) -> dict[str, tuple[str, ...]]:
    """The releases in a file of versions, as `torch = ["2.16.0"]`; `UsageError` where it cannot be used."""
    try:
        read = msgspec.convert(tomllib.loads(file.read_text()), dict[str, tuple[str, ...]])
    except (OSError, UnicodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        msg = f"file of versions {file}: {error}"
        raise UsageError(msg) from error
    if unknown := {*read} - {*PACKAGES}:
        msg = f"file of versions {file} has {', '.join(sorted(unknown))}; allowed: {', '.join(PACKAGES)}"
        raise UsageError(msg)
    return {PACKAGES[name]: versions for name, versions in read.items()}
