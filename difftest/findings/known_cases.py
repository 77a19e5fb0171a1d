"""Cases of known faults: those in the files of `known/`.

`tools/known_cases.py` collects them from campaigns. A first night begins with them, so that it says which
of the known faults are there with the versions that it runs.
"""

from functools import lru_cache

import msgspec

from difftest.cases.case import Case
from difftest.findings.faults import KnownFault, known


class KnownCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case, as JSON, that showed the fault `name`."""

    name: str
    json: str

    def read(self) -> Case:
        """The case; `ValueError` where it is none."""
        return Case.from_json(self.json)


@lru_cache(maxsize=1)
def known_cases() -> tuple[Case, ...]:
    """The cases, each once, those that share processes first."""
    every = {case.id: case for case in (one.read() for one in read_known_cases())}
    return tuple(sorted(every.values(), key=_place))


def read_known_cases(faults: tuple[KnownFault, ...] | None = None) -> tuple[KnownCase, ...]:
    """The cases of `faults`, by default of all that are known, in the order of their names."""
    return tuple(
        KnownCase(name=fault.name, json=example.case)
        for fault in (known() if faults is None else faults)
        for example in fault.examples
    )


def _place(case: Case) -> tuple[bool, str, int, str]:
    """Programs come first, and beside each other those that the same processes run."""
    return not case.model.is_program, case.path, case.world_size, case.id
