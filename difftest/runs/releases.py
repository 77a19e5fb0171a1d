"""Which packages differ between the environments of two runs, and which of them can only change together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from difftest.ground.errors import UsageError
from difftest.ground.installed import OURS
from difftest.runs.layout import Package
from difftest.runs.read import RecordedRun


@dataclass(frozen=True, slots=True)
class Change:
    """Packages that change together, with both versions of each."""

    versions: tuple[tuple[str, str, str], ...]

    @property
    def label(self) -> str:
        """The change in words: `torch 2.9.0 -> 2.15.0`, with those that it brings."""
        (name, old, new), *rest = self.versions
        more = f" (with {', '.join(each for each, _, _ in rest)})" if rest else ""
        return f"{name} {old} -> {new}{more}"


def changes(first: RecordedRun, second: RecordedRun) -> list[Change]:
    """The packages of other versions, those together of which one requires a single version of the other.

    `UsageError` where none differs, or the runs do not say what was installed.
    """
    mine, other = first.environment.packages, second.environment.packages
    for run in (first, second):
        if not run.environment.packages:
            msg = f"{run.name} does not say which packages were installed; record it again"
            raise UsageError(msg)
    names = [name for name in mine if name in other and mine[name].version != other[name].version]
    names = [name for name in names if name != OURS]
    if not names:
        msg = f"the packages of {first.name} and {second.name} have the same versions"
        raise UsageError(msg)
    groups = {name: {name} for name in names}
    for name in names:
        for pin in {*mine[name].pins, *other[name].pins} & {*names}:
            both = groups[name] | groups[pin]
            groups |= dict.fromkeys(both, both)
    distinct = {frozenset(group) for group in groups.values()}
    pinned = {pin for name in names for pin in (*mine[name].pins, *other[name].pins)}

    def ordered(group: frozenset[str]) -> Change:
        names = sorted(group, key=lambda name: (name in pinned, name))
        return Change(tuple((name, mine[name].version, other[name].version) for name in names))

    return sorted(map(ordered, distinct), key=lambda change: change.label)


def requirements(
    first: RecordedRun, second: RecordedRun, changed: Sequence[Change], extra: Sequence[str]
) -> list[str]:
    """What to install for the first run's packages with some changes.

    What a changed package pins changes with it: packages that only the first run had go, such as the kernels
    of another CUDA, and those that only the second had come. The rest that a change needs comes by itself.
    """
    mine, other = first.environment.packages, second.environment.packages
    names = [name for change in changed for name, _, _ in change.versions]
    gone, added = _pinned(mine, names) - {*other}, _pinned(other, names) - {*mine}
    versions = {name: package.version for name, package in mine.items() if name not in {OURS, *gone}}
    versions |= {name: new for change in changed for name, _, new in change.versions}
    versions |= {name: other[name].version for name in sorted(added)}
    return [*(f"{name}=={version}" for name, version in versions.items()), *extra]


def _pinned(packages: Mapping[str, Package], names: Iterable[str]) -> set[str]:
    """What packages pin, and what that pins, as far as it is installed."""
    pinned, left = set[str](), [*names]
    while left:
        pins = {pin for pin in packages[left.pop()].pins if pin in packages} - pinned
        pinned |= pins
        left += pins
    return pinned
