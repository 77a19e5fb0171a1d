"""Which module and parameter of one run is which of the other: by name, by a map, or by structure."""

import difflib
import fnmatch
import re
from collections.abc import Mapping, Sequence

from difftest.ground.errors import UsageError
from difftest.runs.read import Key, RecordedRun, WholeTensor

WRAPPERS = re.compile(
    r"(?:^|(?<=\.))(?:_orig_mod|module|_checkpoint_wrapped_module|_fsdp_wrapped_module)(?:\.|$)"
)
"""The parts of names that wrappers add."""

LEAST_SHARED = 0.5
"""From this share of common parameter names on, two runs are aligned by name."""


def path_of(name: str) -> str:
    """A module's or parameter's name without the parts that wrappers add."""
    return WRAPPERS.sub("", name).rstrip(".")


def renamed(name: str, names: Mapping[str, str]) -> str:
    """The second run's name for the first run's `name`: the longest entry that is `name` or a parent of it.

    A `*` in an entry stands for one part of a name and is filled in on the other side.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        for old, new in names.items():
            pattern = old.split(".")
            if len(pattern) != length:
                continue
            if all(fnmatch.fnmatchcase(part, one) for part, one in zip(parts, pattern, strict=False)):
                filled = iter([part for part, one in zip(parts, pattern, strict=False) if one == "*"])
                head = [next(filled, "") if part == "*" else part for part in new.split(".")]
                return ".".join([*filter(None, head), *parts[length:]])
    return name


def by_structure(first: RecordedRun, second: RecordedRun) -> dict[str, str]:
    """Names of parameters and modules of the second run by the first's, where they share few names.

    Parameters correspond in order of definition, where their shapes agree. A module corresponds to the parent
    of the parameter that corresponds to its own, and so do the modules around it, as far as they have as many
    parts.
    """
    mine, others = _shapes(first), _shapes(second)
    shared = len({*mine} & {*others})
    if shared >= LEAST_SHARED * min(len(mine), len(others)):
        return {}
    names: dict[str, str] = {}
    matcher = difflib.SequenceMatcher(a=[*mine.values()], b=[*others.values()], autojunk=False)
    for mine_at, others_at, size in matcher.get_matching_blocks():
        pairs = zip([*mine][mine_at : mine_at + size], [*others][others_at : others_at + size], strict=True)
        for old, new in pairs:
            names[old] = new
            module, other = old.rpartition(".")[0], new.rpartition(".")[0]
            while module and other and module not in names:
                names[module] = other
                module, other = module.rpartition(".")[0], other.rpartition(".")[0]
    return names


def _shapes(run: RecordedRun) -> dict[str, tuple[int, ...]]:
    """The whole shapes of the parameters, in order of definition."""
    wholes = {key[1]: one.shape for key, one in run.whole(run.steps[0]).items() if key[0] == "start"}
    updated = {key[1]: one.shape for key, one in run.whole(run.steps[0]).items() if key[0] == "updated"}
    shapes = wholes or updated
    return {name: shapes[name] for name in run.environment.parameters if name in shapes}


def pairs(
    first: Mapping[Key, WholeTensor],
    second: Mapping[Key, WholeTensor],
    names: Mapping[str, str],
    *,
    exact: bool,
) -> tuple[list[tuple[Key, WholeTensor, WholeTensor]], list[Key]]:
    """The tensors that both runs have, in the order of the first, and those that one has alone.

    `exact` names replace whole names; otherwise they are patterns and replace parents too.
    """
    aligned, left, rest = [], [], {*second}
    for key, mine in first.items():
        name = names.get(key[1], key[1]) if exact else renamed(key[1], names)
        other = (key[0], name, key[2])
        if other in second:
            aligned.append((key, mine, second[other]))
            rest.discard(other)
        else:
            left.append(key)
    return aligned, [*left, *rest]


def require_names(names: Mapping[str, str], runs: Sequence[RecordedRun]) -> None:
    """`UsageError` where a map names no module and no parameter of the first run."""
    have = {module.path for module in runs[0].environment.modules} | {*runs[0].environment.parameters}
    have |= {one.rsplit(".", back)[0] for one in have for back in range(1, one.count(".") + 1)}
    for old in names:
        parts = old.count(".")
        if not any(one.count(".") == parts and fnmatch.fnmatchcase(one, old) for one in have):
            msg = f"the map names {old!r}, which is no module and no parameter of {runs[0].name}"
            raise UsageError(msg)
