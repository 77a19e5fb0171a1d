"""Experts: every row goes to those that the batch names, whatever the numbers of the row are."""

import operator
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from difftest.cases.layer import Layer, Parameters, Removable
from difftest.cases.layers.linear import Linear
from difftest.cases.ranges import Range

Function: TypeAlias = Literal["silu", "relu"]

MOST_EXPERTS = 64
"""bfloat16 has the numbers of so many experts, which are fed as the case's dtype."""


HIDDEN_DIMS = {"routed.rising": 2, "routed.falling": 1}
"""The parameters that have an entry for each expert, and the dim of their hidden width."""


class RoutedExperts(Layer, frozen=True, kw_only=True, tag="routed_experts"):
    """Two matrices for each of `experts`, with a function between them.

    Every row goes to `top` of them, and their results are added up. Which ones is fed beside the batch
    (`mask PATH`), because a router's ties would flip with the last bit of a score. With `lean` the first
    experts are preferred; from 1 on, no row goes to others. `router`: a result is multiplied by the softmax
    of its expert's score. `capacity`: an expert takes so many rows of an accumulation part, the first ones of
    the whole batch; the choices of later rows are dropped. `shared` is the hidden width of one more expert,
    which every row goes to.
    """

    MAGNITUDE: ClassVar[Literal["grows"]] = "grows"
    MAKES_TENSORS: ClassVar[bool] = True
    USUAL_NUMBERS: ClassVar[bool] = True
    OWN_SIZES: ClassVar[Mapping[str, tuple[int, ...]]] = {"hidden": (1, 2, 4), "experts": (2, 4), "top": (1,)}

    width: int
    hidden: int
    experts: int
    top: int = 1
    router: bool = True
    capacity: int | None = None
    shared: int | None = None
    function: Function = "silu"
    lean: float = 0.0

    def shapes(self) -> Parameters:
        """The matrices of all experts, the router's, and those of the shared expert."""
        router = {"router": (self.experts, self.width)} if self.router else {}
        shared = (
            {"shared.rising": (self.width, self.shared), "shared.falling": (self.shared, self.width)}
            if self.shared
            else {}
        )
        return {
            "routed.rising": (self.experts, self.width, self.hidden),
            "routed.falling": (self.experts, self.hidden, self.width),
            **router,
            **shared,
        }

    @property
    def reads_mask(self) -> bool:
        """The numbers of each row's experts."""
        return True

    @property
    def mixes_rows(self) -> bool:
        """Rows compete for an expert that takes only so many."""
        return self.capacity is not None

    def mask(self, lead: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[np.float64]:
        """The numbers of each row's experts, all different: (*`lead`, top)."""
        keys = random.random((*lead, self.experts)) + self.lean * np.arange(self.experts)
        return np.argsort(keys, axis=-1)[..., : self.top].astype(np.float64)

    def mask_spelled(self, lead: str, torch_by: str | None = None) -> str:
        """The same in a script."""
        shape, lean = f"{lead} {self.experts}", f"{self.lean} * {{}}.arange({self.experts})"
        if torch_by is not None:
            keys = f"torch.rand(({shape}){torch_by}) + {lean.format('torch')}"
            return f"({keys}).argsort(-1)[..., :{self.top}]"
        keys = f"RNG.random(({shape})) + {lean.format('np')}"
        return f"np.argsort({keys}, axis=-1)[..., :{self.top}]"

    def contradiction(self) -> str:
        """A row cannot go to one expert twice."""
        if self.experts > MOST_EXPERTS:
            return f"experts {self.experts}; allowed: 1 to {MOST_EXPERTS}"
        if self.top > self.experts:
            return f"top {self.top}; allowed: 1 to {self.experts}, the number of experts"
        return "" if 0.0 <= self.lean <= 1.0 else f"lean {self.lean}; allowed: 0 to 1"

    def rounds(self) -> str:
        """Products, sums and relu do not."""
        if self.router:
            return "the softmax of a router rounds"
        return "" if self.function == "relu" else super().rounds()

    def output_range(self, values: Range, weights: Mapping[str, Range]) -> Range:
        """The sum over a row's experts, the shared one too."""
        sums = [
            (self._up(values, weights[f"{which}.rising"]) * weights[f"{which}.falling"]).summed(hidden)
            for which, hidden in self._widths()
        ]
        return reduce(operator.add, sums)

    def _widths(self) -> Iterator[tuple[str, int]]:
        """The experts that a row goes to, and their hidden width: of its own ones, together."""
        yield "routed", self.hidden * self.top
        if self.shared:
            yield "shared", self.shared

    def _up(self, values: Range, rising: Range) -> Range:
        return (values * rising).summed(self.width)

    def gradient_ranges(
        self, values: Range, gradient: Range, rows: int, weights: Mapping[str, Range]
    ) -> Mapping[str, Range]:
        """Sums over the rows."""
        ranges: dict[str, Range] = {}
        for which, _ in self._widths():
            rising, falling = weights[f"{which}.rising"], weights[f"{which}.falling"]
            ranges[f"{which}.rising"] = ((gradient * falling).summed(self.width) * values).summed(rows)
            ranges[f"{which}.falling"] = (gradient * self._up(values, rising)).summed(rows)
        return ranges

    def input_gradient_range(self, gradient: Range, weights: Mapping[str, Range]) -> Range:
        """Back through the matrices of all its experts."""
        sums = [
            ((gradient * weights[f"{which}.falling"]).summed(self.width) * weights[f"{which}.rising"]).summed(
                hidden
            )
            for which, hidden in self._widths()
        ]
        return reduce(operator.add, sums)

    @property
    def complexity(self) -> int:
        """More than any layer of one operator."""
        return 6

    def removable(self) -> tuple[Removable, ...]:
        """What it may lack."""
        parts: tuple[tuple[bool, Removable], ...] = (
            (self.router, ("has a router", {"router": False})),
            (self.capacity is not None, (f"has capacity {self.capacity}", {"capacity": None})),
            (self.shared is not None, ("has a shared expert", {"shared": None})),
            (self.function != "relu", (f"has {self.function}", {"function": "relu"})),
            (self.lean > 0.0, (f"leans by {self.lean}", {"lean": 0.0})),
        )
        return tuple(part for present, part in parts if present)

    def plainer(self) -> Linear:
        """A projection of the same width."""
        return Linear(inputs=self.width, outputs=self.width, bias=False)

    def features(self) -> Iterator[str]:
        """Its parts, and how rows are spread."""
        yield f"experts top {self.top}"
        yield from (f"experts: {words}" for words, _ in self.removable())

    def no_style(self) -> str:
        """The styles are for single layers."""
        return "parallelize_module has no style for the matrices of experts"

    def spelled(self, path: str, *, moves: bool) -> str:
        """The script's own class."""
        del moves
        arguments = (self.width, self.hidden, self.experts, self.router, self.capacity, self.shared)
        activate = "torch.relu" if self.function == "relu" else "functional.silu"
        return f'Experts("mask {path}", {", ".join(map(str, arguments))}, {activate})'
