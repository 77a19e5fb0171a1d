"""The figures that `tests/benchmarks/table.py` prints: a file for each, with a function `figures`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured and the least it should be, both in the unit that `name` states."""

    name: str
    measured: float
    target: float

    @property
    def is_met(self) -> bool:
        """Whether the target is reached."""
        return self.measured >= self.target
