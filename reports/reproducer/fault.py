"""What a reproducer must show: a wrong tensor, or a run that fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from difftest.judge.checks import ScriptKind
from difftest.judge.stage import Stage
from difftest.records.script_ending import Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a script must show.

    A wrong tensor is `tensor` at `stage` of `step`, counted from 0. For `numbers`, `tolerance` is the least
    error that shows the fault, in the tensor's units. Of a run that fails, `failure` is the exception's type,
    the signal's name or `exit status N`, and `needle` a piece of its message without numbers, empty if it has
    none. `results` are a program's results that require a gradient, with their dtypes.
    """

    kind: ScriptKind
    stage: Stage
    step: int
    tensor: str = ""
    tolerance: float = 0.0
    failure: str = ""
    needle: str = ""
    results: Mapping[str, str] = field(default_factory=dict)

    @property
    def fails(self) -> bool:
        """Whether the fault is a run that does not finish."""
        return self.kind in ("raises", "crash", "hang")

    @property
    def compares(self) -> bool:
        """Whether the fault shows in a comparison with a float64 run."""
        return self.kind == "numbers"

    @property
    def steps(self) -> int:
        """How many training steps the script runs."""
        return self.step + 1

    @property
    def updates(self) -> bool:
        """Whether the script needs the optimizer."""
        return self.steps > 1 or self.stage is Stage.UPDATE

    @property
    def wants_loss(self) -> bool:
        """Whether the wrong tensor is the loss."""
        return not self.fails and self.stage is Stage.FORWARD and self.tensor == "loss"

    @property
    def wants_output(self) -> bool:
        """Whether the wrong tensor is an output."""
        return not self.fails and self.stage is Stage.FORWARD and self.tensor != "loss"

    @property
    def wants_gradient(self) -> bool:
        """Whether the wrong tensor is a gradient."""
        return not self.fails and self.stage is Stage.BACKWARD

    @property
    def wants_parameter(self) -> bool:
        """Whether the wrong tensor is an updated parameter."""
        return not self.fails and self.stage is Stage.UPDATE

    @property
    def part(self) -> int:
        """The accumulation part whose output is wrong, counted from 0."""
        _, _, number = self.tensor.partition(".")
        return int(number) if self.stage is Stage.FORWARD and number else 0

    @property
    def ending(self) -> str:
        """How a script of a run that fails ends while the fault is there; empty for a wrong tensor.

        It stands in the script's docstring, where `difftest.records.script_ending` reads it.
        """
        return Ending(self.failure, self.needle, hangs=self.kind == "hang").line if self.fails else ""
