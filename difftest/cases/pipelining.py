"""How a model is cut into the stages of a pipeline, and in which order its microbatches go through them.

It is part of the case because training must give the same result whatever it is: microbatches add up to the
batch. The layout has the mesh axis `pp` for it, over which parameters count as replicated: each lives on the
ranks of its stage, and is read from there.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, Self, TypeAlias

import msgspec

AXIS = "pp"
MOST_MICROBATCHES = 64

Schedule: TypeAlias = Literal[
    "GPipe", "1F1B", "LoopedBFS", "Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"
]
Handed: TypeAlias = Literal[
    "tensor", "view", "two", "unused", "integers", "strided", "passed_on", "learned", "named"
]
Evaluated: TypeAlias = Literal["never", "first", "later"]
Beside: TypeAlias = Literal["nothing", "rows", "pair", "one_row", "number"]

OPTIONS = ("schedule", "hands", "scaled", "evaluated", "beside", "rows_second")
"""The fields whose values have names."""

SINGLE: tuple[Schedule, ...] = ("GPipe", "1F1B")
"""The schedules in which every rank has one stage."""

FOLDED: tuple[Schedule, ...] = ("ZBVZeroBubble", "DualPipeV")
"""Those in which every rank has two: the first rank has the first stage and the last one."""

SPLIT: tuple[Schedule, ...] = ("InterleavedZeroBubble", *FOLDED)
"""Those that compute the gradients of inputs and of parameters one after the other."""


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A pipeline, by torch's own names where it has some.

    * `schedule`: the order of forward and backward passes.
    * `cuts`: the layers with which the second stage begins, the third, and so on.
    * `microbatches`: into how many parts the rows of an accumulation part are cut, as `tensor_split` does.
    * `hands`: what a stage gives the next one. It is a `tensor`; a `view` of one, which the last stage gives
      too; `two` halves of its value; a second tensor that stays `unused`; one of `integers` beside it; a
      tensor that is `strided`; beside it what the stage received, `passed_on`; beside it a bias that the
      stage has `learned`, which the next one adds; or a dict that has it `named`.
    * `scaled`: the loss of a microbatch is a mean, and the schedule divides gradients by their number, as is
      torch's default. Otherwise it is a sum.
    * `evaluated`: whether the batch of a step is evaluated ahead of it, by `schedule.eval`: `never`, ahead of
      the `first` step and the others, or of `later` ones alone.
    * `beside`: what every stage is given by keyword beside its inputs. Each layer is given its input times
      the factor of its row: one for each of the `rows`; a `pair` of tensors, the factors and what is added
      to the products; `one_row` for all; or a `number`, a tensor without dims.
    * `rows_second`: tensors have the sequence first and rows second: microbatches are cut along dim 1.

    `ValueError` if the cuts are not in ascending order, or a number is out of range.
    """

    schedule: Schedule = "GPipe"
    cuts: tuple[int, ...] = ()
    microbatches: int = 1
    hands: Handed = "tensor"
    scaled: bool = False
    evaluated: Evaluated = "never"
    beside: Beside = "nothing"
    rows_second: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.microbatches <= MOST_MICROBATCHES:
            msg = f"microbatches is {self.microbatches}; allowed: 1 to {MOST_MICROBATCHES}"
            raise ValueError(msg)
        if list(self.cuts) != sorted({*self.cuts}) or (self.cuts and self.cuts[0] < 1):
            msg = f"cuts are {list(self.cuts)}; allowed: ascending numbers of layers, from 1"
            raise ValueError(msg)

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.cuts) + 1

    @property
    def can_turn(self) -> bool:
        """Whether rows can come second: LoopedBFS has no argument that says how inputs are cut."""
        return self.hands == "tensor" and self.schedule != "LoopedBFS"

    def layers(self, layers: int) -> list[range]:
        """The layers of each stage, of a model that has so many."""
        ends = (*self.cuts, layers)
        return [range(start, end) for start, end in zip((0, *self.cuts), ends, strict=True)]

    def rank_of(self, stage: int, ranks: int) -> int:
        """The rank along the pipeline's axis that has a stage."""
        turn, at = divmod(stage, ranks)
        return ranks - 1 - at if turn % 2 and self.schedule in FOLDED else at

    def ranks_with(self, having: Collection[int], layers: int, ranks: int) -> set[int]:
        """The ranks along the pipeline's axis with a stage that has one of these layers."""
        stages = enumerate(self.layers(layers))
        return {self.rank_of(stage, ranks) for stage, own in stages if {*having}.intersection(own)}

    def refusal(self, layers: int, ranks: int) -> str:
        """Why a model of so many layers has no such pipeline over so many ranks; empty where it has."""
        if self.cuts and self.cuts[-1] >= layers:
            return f"a stage begins with layer {self.cuts[-1]}; the model has {layers} layers"
        if self.schedule in SINGLE and self.stages != ranks:
            return f"{self.schedule} has one stage a rank; there are {self.stages} stages and {ranks} ranks"
        if self.schedule in FOLDED and self.stages != 2 * ranks:
            return f"{self.schedule} has two stages a rank; there are {self.stages} stages and {ranks} ranks"
        if self.stages % ranks:
            return f"{ranks} ranks do not share {self.stages} stages evenly"
        return ""

    def fitted(self, layers: int) -> Self:
        """The same stages of a model of fewer layers; stages that would be empty begin earlier."""
        last = len(self.cuts) - 1
        cuts = tuple(min(cut, layers - 1 - last + at) for at, cut in enumerate(self.cuts))
        return msgspec.structs.replace(self, cuts=cuts)

    def on(self, ranks: int, before: int) -> Self:
        """As many stages a rank on `ranks` ranks as there were on `before`; the last ones are one."""
        stages = self.stages // before * ranks
        return msgspec.structs.replace(self, cuts=self.cuts[: stages - 1])

    def settings(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """What is not as it usually is, as `name=value`, with the fields that make it so."""
        plain: Schedule = "GPipe" if self.schedule in SINGLE else "LoopedBFS"
        usual = Pipeline(schedule=plain)
        for name in OPTIONS:
            value = getattr(usual, name)
            if (own := getattr(self, name)) != value:
                yield f"{name}={own}", {name: value}
