"""Options of replicas, wrappers, a run's start and spelling at their defaults, and any attention kernel."""

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from difftest.cases.case import Case
from difftest.cases.options import Replication, Spelling, Start
from difftest.cases.wrapping import Dispatch, Regions, Sharding
from difftest.reduce.candidate import Candidate, Simplification, by_parts

ORDER = 6

_PLAIN: dict[str, msgspec.Struct] = {
    "replication": Replication(),
    "start": Start(),
    "spelling": Spelling(),
    "sharding": Sharding(),
    "regions": Regions(),
    "dispatch": Dispatch(),
}


def default_options(case: Case) -> Iterator[Candidate]:
    """Without some of the options that are set."""
    parts = [
        (f"{option} {_shown(getattr(_options(case, part), option))}", (part, option))
        for part, option in _set(case)
    ]
    yield from by_parts(parts, partial(_defaulted, case))


def any_kernel(case: Case) -> Iterator[Candidate]:
    """The attention kernel that the backend chooses."""
    if case.sdpa is not msgspec.UNSET:
        yield f"sdpa {case.sdpa}", msgspec.structs.replace(case, sdpa=msgspec.UNSET)


def fewer_training_features(case: Case) -> Iterator[Candidate]:
    """Without one of the features of training."""
    for feature in case.training_features:
        others = tuple(one for one in case.training_features if one != feature)
        yield f"feature {feature.name}", msgspec.structs.replace(case, features=others)


SIMPLIFICATIONS: tuple[Simplification, ...] = (default_options, any_kernel, fewer_training_features)


def _set(case: Case) -> list[tuple[str, str]]:
    """The options that are not at their defaults, each with the part of the case that it is in."""
    options = ((part, option) for part, plain in _PLAIN.items() for option in plain.__struct_fields__)
    return [
        (part, option)
        for part, option in options
        if getattr(_options(case, part), option) != getattr(_PLAIN[part], option)
    ]


def _options(case: Case, part: str) -> msgspec.Struct:
    options: msgspec.Struct | msgspec.UnsetType = getattr(case, part)
    return _PLAIN[part] if options is msgspec.UNSET else options


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _defaulted(case: Case, options: Sequence[tuple[str, str]]) -> Case:
    for part, option in options:
        plain = getattr(_PLAIN[part], option)
        case = msgspec.structs.replace(
            case, **{part: msgspec.structs.replace(_options(case, part), **{option: plain})}
        )
    return case
