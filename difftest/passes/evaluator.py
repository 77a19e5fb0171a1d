"""What an instruction needs of what evaluates its module."""

from collections.abc import Sequence
from typing import Any, Protocol

from difftest.passes.arrays import Array, Each
from difftest.passes.hlo import Computation, HloModule, Shape


class Evaluator(Protocol):
    """What evaluates the other computations of a module: `difftest.passes.evaluate.Machine`."""

    @property
    def module(self) -> HloModule:
        """The module."""

    @property
    def wide(self) -> bool:
        """Whether it computes in greater precision than the module's."""

    @property
    def steps(self) -> list[int]:
        """How many iterations its loops have had, in one place for all that evaluate it."""

    @property
    def devices(self) -> int:
        """How many there are."""

    def run(self, computation: Computation, arguments: Sequence[Each]) -> Each:
        """The result for each device."""

    def held(self, array: Any, shape: Shape) -> Array:  # noqa: ANN401  what numpy makes
        """An array as an array of this shape's type holds it."""

    def scalars(self, name: str, arrays: Sequence[Array]) -> Any:  # noqa: ANN401  an array, or a tuple
        """The computation of scalars applied to every element of arrays."""
