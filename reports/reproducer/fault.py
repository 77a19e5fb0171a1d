"""What a reproducer must show: a wrong tensor, or a run that fails."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from difftest.cases.case import Case
from difftest.cases.draws import Floats
from difftest.judge import checks
from difftest.judge.checks import ScriptKind
from difftest.judge.divergence import ARGUMENTS, Divergence
from difftest.judge.measured import Measurement
from difftest.judge.outcome import NO_MESSAGE, Failure, Outcome
from difftest.judge.stage import Stage
from difftest.records.script_ending import ScriptEnding

LEAST_NEEDLE = 6
"""The least length in characters of a piece of a message that identifies an error."""

MOST_NEEDLE = 100
PYTHON_DIED = "Fatal Python error"
LEAST_RATIO = 100.0
"""An error of this many times the rounding noise shows with other numbers too.

The tolerance is then at least 10 times the rounding noise.
"""

ADAPTIVE = ("adam", "adamw")
_VARYING = re.compile(rf"-?0x[0-9a-fA-F]+|(/[\w.+-]+)+/|-?\d+(\.\d+)?|{ARGUMENTS}|[\r\n]+")
"""The parts of a message that depend on case and machine: numbers, addresses, folders, DTensor's argument
lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """The right numbers of a tensor at some places of it, flattened; `maker` says what computed them.

    `weights` are what a program's results are multiplied by in its loss.
    """

    places: tuple[int, ...]
    numbers: tuple[float, ...]
    maker: str
    weights: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a script must show.

    A wrong tensor is `tensor` at `stage` of `step`, counted from 0. For `numbers`, `tolerance` is the least
    error that shows the fault, in the tensor's units. Of a run that fails, `failure` is the exception's type,
    the signal's name or `exit status N`, and `needle` a piece of its message without numbers, empty if it has
    none. `results` are a program's results that require a gradient, with their dtypes. On a twin, `right` has
    what a script compares torch with.
    """

    kind: ScriptKind
    stage: Stage
    step: int
    tensor: str = ""
    tolerance: float = 0.0
    failure: str = ""
    needle: str = ""
    results: Mapping[str, str] = field(default_factory=dict)
    right: Right | None = None

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
        return ScriptEnding(self.failure, self.needle, hangs=self.kind == "hang").line if self.fails else ""


def fault_of(divergence: Divergence, outcome: Outcome, measurement: Measurement | None) -> Fault | None:
    """What a reproducer of `divergence` must show; None if no script can show it.

    `outcome` is that of the run that diverged, and `measurement` that of the diverging tensor at its step.
    The tolerance lies half way, in orders of magnitude, between the rounding noise and the error.
    """
    if divergence.stage is Stage.FORWARD and " " in divergence.tensor:
        return None  # a script shows the first of what a user's model returns
    check = checks.load_all().get(divergence.check)
    kind = check.TRAITS.scripts.get(divergence.symptom) if check else None
    if kind is None:
        return None
    shown = Fault(kind=kind, stage=divergence.stage, step=divergence.step)
    if isinstance(outcome, Failure):
        return replace(shown, failure=outcome.kind, needle=needle(outcome.message))
    shown = replace(shown, tensor=divergence.tensor)
    if kind != "numbers":
        return shown
    assert measurement is not None  # noqa: S101  a mismatch was measured
    return replace(shown, tolerance=tolerance(measurement))


def tolerance(measurement: Measurement) -> float:
    """The geometric mean of rounding noise and greatest error; half of the error where nothing rounds."""
    if measurement.exact or not 0.0 < measurement.floor < measurement.greatest:
        return measurement.greatest / 2
    return float(f"{(measurement.floor * measurement.greatest) ** 0.5:.3g}")


def any_numbers(case: Case, shown: Fault, ratio: float | None) -> bool:
    """Whether a script with other numbers of the case's kind shows the fault, and nothing but the fault.

    The case's rounding noise separates wrong numbers from rounding. Other numbers of the kind have the same
    noise up to a small factor, so `ratio`, the error in units of the noise, must be far above it. An adaptive
    optimizer magnifies a gradient that is nothing but rounding, which happens with some numbers and not with
    others.
    """
    if case.model.own or shown.right:
        return False
    if shown.kind not in ("numbers", "nonfinite"):
        return True
    if case.data.learnable or (shown.kind == "numbers" and (ratio is None or ratio < LEAST_RATIO)):
        return False
    moved = shown.stage is Stage.UPDATE or shown.step > 0
    return not (moved and case.training.optimizer in ADAPTIVE)


def needle(message: str) -> str:
    """The longest piece of a message that does not change from case to case; empty if none is long enough."""
    if message.startswith((NO_MESSAGE, PYTHON_DIED)):
        return ""  # neither a source line nor what Python adds is in what a script prints
    text = message.partition("Check failed:")[2] or message  # a log's line begins with time and place
    pieces = [piece.strip() for piece in _VARYING.sub("\n", text).split("\n")]
    longest = max(pieces, key=len, default="")
    return longest[:MOST_NEEDLE].rstrip() if len(longest) >= LEAST_NEEDLE else ""
