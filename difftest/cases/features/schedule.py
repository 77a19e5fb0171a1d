"""A scheduler of the learning rate, stepped after every update."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.schema import Positive
from difftest.cases.script_values import python

MODULE = "torch.optim.lr_scheduler"

Plain: TypeAlias = Literal["step", "exponential", "linear", "cosine", "lambda"]
Further: TypeAlias = Literal["warmed", "unwarmed", "one_cycle", "restarts", "polynomial", "chained"]
Kind: TypeAlias = Literal[Plain, Further]
"""The classes of `torch.optim.lr_scheduler`, in short.

`warmed` is `SequentialLR` of a linear warm-up and a cosine; `unwarmed` is the same with its milestone at 0.
"""

STEP_SIZE = 2
PERIOD = 4
WARM_UP = 1
"""In steps."""

CYCLE: Mapping[str, Any] = {
    "total_steps": 2 * PERIOD,
    "pct_start": 0.5,
    "anneal_strategy": "linear",
    "cycle_momentum": False,
    "final_div_factor": 1.0,
}
"""The arguments of `OneCycleLR` beside the factor: to the rate in 3 steps, and back in 4."""


class Options(FeatureOptions, frozen=True):
    """The kind of schedule, and the factor of the learning rate."""

    FURTHER_ON: ClassVar[tuple[str, ...]] = ("own_steps",)

    kind: Kind
    factor: Positive

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """It needs a second step to show."""
        kinds = get_args(Further if cls.draws_further(case) else Plain)
        return {"kind": kinds, "factor": (0.5, 0.75)} if case.training.steps > 1 else None

    def spelled(self, _training: Training) -> Spelled:
        """The scheduler is made ahead of the first step, of whatever rate the optimizer has."""
        factor, rate = python(self.factor), 'float(optimizer.param_groups[0]["lr"])'
        linear = f"LinearLR(optimizer, {factor}, 1.0, {PERIOD})"
        cosine = f"CosineAnnealingLR(optimizer, {PERIOD}, least)"
        both = f"[{MODULE}.{linear}, {MODULE}.{cosine}]"
        cycle = ", ".join(f"{name}={python(value)}" for name, value in CYCLE.items())
        constant = f"{MODULE}.ConstantLR(optimizer, {factor}, {STEP_SIZE})"
        exponential = f"ExponentialLR(optimizer, {factor})"
        made = {
            "step": f"StepLR(optimizer, {STEP_SIZE}, {factor})",
            "exponential": exponential,
            "linear": linear,
            "cosine": cosine,
            "lambda": f"LambdaLR(optimizer, lambda step: 1 / (1 + {factor} * step))",
            "warmed": f"SequentialLR(optimizer, {both}, [{WARM_UP}])",
            "unwarmed": f"SequentialLR(optimizer, {both}, [0])",
            "one_cycle": f"OneCycleLR(optimizer, {rate}, div_factor=1 / {factor}, {cycle})",
            "restarts": f"CosineAnnealingWarmRestarts(optimizer, {STEP_SIZE}, eta_min=least)",
            "polynomial": f"PolynomialLR(optimizer, {PERIOD}, {factor})",
            "chained": f"ChainedScheduler([{constant}, {MODULE}.{exponential}])",
        }[self.kind]
        least = (f"least = {factor} * {rate}",) if "least" in made else ()
        return Spelled(begun=(*least, f"scheduler = {MODULE}.{made}"), after=("scheduler.step()",))
