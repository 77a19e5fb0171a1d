"""Muon or Adafactor, which look at a matrix as a whole."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.features.optimizer import EXCLUDED
from difftest.cases.schema import Positive
from difftest.cases.script_values import python

LEAST = 2.0**-23
"""The least root of a second moment, which Adafactor would by default take from a parameter's dtype."""

OF_PARAMETERS = 1e-3
"""The least root mean square of a parameter that Adafactor scales its steps by."""


class Options(FeatureOptions, frozen=True):
    """Which one, its learning rate, and whether Muon's momentum is Nesterov's.

    Muon trains matrices alone; vectors then stay what they are.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("shards",)

    kind: Literal["muon", "adafactor"]
    nesterov: bool
    rate: Positive

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """In float32; Muon, which has a matrix to train, in bfloat16 too."""
        if has(case, "optimizer", *EXCLUDED) or case.training.optimizer == "none":
            return None
        muon = case.dtype != "float16" and any(len(one) == 2 for one in case.model.parameters().values())  # noqa: PLR2004
        kinds = [*(["muon"] if muon else []), *(["adafactor"] if case.dtype == "float32" else [])]
        return (
            {"kind": tuple(kinds), "nesterov": (True, False), "rate": (2.0**-5, 2.0**-7)} if kinds else None
        )

    def spelled(self, _training: Training) -> Spelled:
        """In place of the case's, over matrices or over all parameters."""
        if self.kind == "adafactor":
            arguments = {"lr": python(self.rate), "eps": f"({LEAST!r}, {OF_PARAMETERS!r})"}
            return Spelled(kind="Adafactor", arguments=arguments)
        matrices = "[one for one in model.parameters() if one.dim() == 2]"
        arguments = {"lr": python(self.rate), "nesterov": python(self.nesterov)}
        return Spelled(kind="Muon", arguments=arguments, parameters=matrices)
