"""Which tensor of one checkpoint is which of another: by name, however each wraps its model."""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from difftest.ground.errors import UsageError
from difftest.runs.align import LEAST_SHARED, path_of, renamed
from difftest.runs.checkpoint import About, Checkpoint

MOST_PREFIX = 2
"""How many parts of names, such as `state.model.`, may be what a checkpoint wraps its model in."""

OPTIMIZER = ("exp_avg", "exp_avg_sq", "momentum_buffer", "square_avg", "sum", "max_exp_avg_sq")
"""What optimizers call the state of a parameter, which is as noisy as gradients."""


def require_names(names: Mapping[str, str], first: Checkpoint) -> None:
    """`UsageError` where a map names nothing that is in a tensor's name of the first checkpoint."""
    unknown = [old for old in names if not any(_within(one, old) for one in map(path_of, first.tensors))]
    if unknown:
        msg = f"the map names {unknown[0]!r}, which is in no tensor's name of {first.name}"
        raise UsageError(msg)


def _within(name: str, old: str) -> bool:
    """Whether an entry of a map replaces a name, or a parent of it."""
    parts = name.split(".")
    return any(renamed(".".join(parts[:end]), {old: "\n"}) == "\n" for end in range(1, len(parts) + 1))


class Aligned:
    """Which tensor of a second checkpoint is which of the first: by name, without what wraps the model.

    `beside` has, of each, what only it has beside the model: another part of what it saves, or the
    optimizer's state where the other has none.
    """

    def __init__(self, first: Checkpoint, second: Checkpoint, names: Mapping[str, str]) -> None:
        self.second = second
        states = _states(first.tensors), _states(second.tensors)
        mine, other = (
            _cleaned([name for name in one.tensors if name not in {*state.values()}])
            for one, state in zip((first, second), states, strict=True)
        )
        mine = {renamed(name, names): raw for name, raw in mine.items()}
        self.prefixes = _prefixes({*mine}, {*other})
        mine, other = _without(mine, self.prefixes[0]), _without(other, self.prefixes[1])
        both = all(states)
        if both:
            mine, other = {**mine, **states[0]}, {**other, **states[1]}
        self.pairs = {raw: other[name] for name, raw in mine.items() if name in other}
        alone = (
            [raw for name, raw in mine.items() if name not in other],
            [raw for name, raw in other.items() if name not in mine],
        )
        self.missing = [[raw for raw in each if not self._beside(raw, at)] for at, each in enumerate(alone)]
        rest = [0, 0] if both else [len(each) for each in states]
        self.beside = tuple(
            len(each) - len(own) + more for each, own, more in zip(alone, self.missing, rest, strict=True)
        )

    def _beside(self, raw: str, which: int) -> bool:
        """Whether a tensor lies beside the model in a checkpoint that wraps it, where the other does not."""
        return self.prefixes[0] != self.prefixes[1] and not f"{path_of(raw)}.".startswith(
            self.prefixes[which] or "\n"
        )


_STATE = re.compile(rf"(?P<head>.*\bstate\.)(?P<key>.+)\.(?P<kind>{'|'.join((*OPTIMIZER, 'step'))})")
"""The name of an optimizer's tensor; `key` is a number or the parameter's name."""


def _states(tensors: Mapping[str, About]) -> dict[str, str]:
    """The optimizer's tensors by parameter, whichever way the optimizer counts or names these.

    Those of several optimizers keep their names.
    """
    matches = {name: match for name in tensors if (match := _STATE.fullmatch(name))}
    keyed = {name: match["key"] for name, match in matches.items()}
    numbers = sorted({int(key) for key in keyed.values() if key.isdecimal()})
    shapes = {
        int(key): tensors[name].shape
        for name, key in keyed.items()
        if key.isdecimal() and tensors[name].shape
    }
    by_number, left = {}, iter([name for name in tensors if name not in keyed])
    for number in numbers:  # parameters are counted in the order of the model, which has buffers too
        by_number[str(number)] = next((one for one in left if tensors[one].shape == shapes.get(number)), "")
    if all(by_number.values()):
        keyed = {name: by_number.get(key, key) for name, key in keyed.items()}
    cut = len(_common({path_of(key) for key in keyed.values()}))
    states = {f"{path_of(key)[cut:]} {matches[name]['kind']}": name for name, key in keyed.items()}
    alone = len({match["head"] for match in matches.values()}) < 2  # noqa: PLR2004
    return states if alone and len(states) == len(keyed) else {name: name for name in keyed}


def _common(names: set[str]) -> str:
    """What all names begin with, whole parts of them."""
    parents = [name.split(".")[:-1] for name in names]
    head = ""
    for parts in zip(*parents, strict=False):
        if len(parents) < 2 or len({*parts}) > 1:  # noqa: PLR2004  one name has nothing in common
            break
        head += f"{parts[0]}."
    return head


def _cleaned(names: Sequence[str]) -> dict[str, str]:
    """The names without what wrappers add, as far as they stay distinct, with the names in the file."""
    cleaned: dict[str, str] = {}
    for name in names:
        cleaned[name if (short := path_of(name)) in cleaned else short] = name
    return cleaned


def _without(names: Mapping[str, str], prefix: str) -> dict[str, str]:
    inside = {name.removeprefix(prefix): raw for name, raw in names.items() if name.startswith(prefix)}
    return inside | {name: raw for name, raw in names.items() if not name.startswith(prefix)}


def _prefixes(mine: set[str], other: set[str]) -> tuple[str, str]:
    """What each checkpoint wraps its model in: the shortest that make the most names equal."""
    least = min(len(mine), len(other))
    if len(mine & other) >= LEAST_SHARED * least:
        return "", ""

    def begins(names: set[str]) -> list[str]:
        """What at least half of the names of a model begin with."""
        heads = Counter(
            ".".join(parts[:end]) + "."
            for parts in (name.split(".") for name in names)
            for end in range(1, min(len(parts), MOST_PREFIX + 1))
        )
        return ["", *(head for head, count in heads.items() if count >= LEAST_SHARED * least)]

    def shared(one: str, two: str) -> int:
        inside = {name.removeprefix(one) for name in mine if name.startswith(one)}
        return len(inside & {name.removeprefix(two) for name in other if name.startswith(two)})

    heads = itertools.product(begins(mine), begins(other))
    return max(heads, key=lambda pair: (shared(*pair), -len("".join(pair))))
