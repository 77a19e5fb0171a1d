"""Grouped-query attention by torch's own function: several query heads share a key head."""

from difftest.cases.block import BlockArguments, Choices, Declared, linear
from difftest.cases.schema import Size
from difftest.cases.sizes import widths


class Arguments(BlockArguments, frozen=True):
    """Heads of keys, and how many of queries each has."""

    width: Size
    key_heads: Size
    group: Size
    head_dim: Size
    causal: bool

    @classmethod
    def drawn(cls, unit: int) -> Choices:
        """A number of key heads that `unit` usually divides, and up to four query heads for each."""
        return {
            "width": widths(unit),
            "key_heads": (unit, unit, 1, 3),
            "group": (2, 1, 4),
            "head_dim": (4, 8, 3),
            "causal": (False, True),
        }

    def declared(self) -> Declared:
        """Four projections: those of queries, keys and values are cut by heads, the last by its inputs."""
        width, keys = self.width, self.key_heads * self.head_dim
        queries = keys * self.group
        projections = {"q": (queries, width), "k": (keys, width), "v": (keys, width), "o": (width, queries)}
        parameters = {
            name: shape for key, of in projections.items() for name, shape in linear(key, *of).items()
        }
        return Declared(
            parameters=parameters, inputs=width, outputs=width, positions=True, cuts={"o.weight": (0, 1)}
        )
