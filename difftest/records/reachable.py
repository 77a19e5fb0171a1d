"""What a run can reach at most: torch's own operators, and what DTensor and torch_xla have for each.

`tools/reachable.py` writes the data from an installed torch.
"""

import functools
from collections.abc import Mapping
from importlib import resources

import msgspec

FILE = "reachable.json"

COMPOSITE, FOREIGN, RANDOM, RULE, KERNEL = "c", "n", "r", "d", "x"
"""The letters of an operator.

torch replaces it by others before it is dispatched; it has no kernel for dense tensors on the CPU; it draws
random numbers; DTensor has a rule for some overload of it; torch_xla has a kernel of its own for one.
"""


class Reachable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The versions that were asked, and the letters of every operator by its name without overload."""

    torch: str
    torch_xla: str
    operators: Mapping[str, str]

    def having(self, letter: str) -> frozenset[str]:
        """The operators with a letter."""
        return frozenset(name for name, letters in self.operators.items() if letter in letters)

    @property
    def dispatched(self) -> frozenset[str]:
        """The operators that are dispatched on the CPU at all."""
        return frozenset(self.operators) - self.having(COMPOSITE) - self.having(FOREIGN)


@functools.cache
def reachable() -> Reachable:
    """The data of the version of torch that the project uses."""
    content = resources.files(__package__).joinpath(FILE).read_bytes()
    return msgspec.json.decode(content, type=Reachable)
