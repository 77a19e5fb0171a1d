"""Compiler flags that every run sets alike, and that an ablation changes to see what depends on them."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from difftest.cases.case import Case

SAME_PRECISION = "--xla_allow_excess_precision=false"
"""The XLA flag that keeps no more precision than the dtype between operators."""

UNOPTIMISED = "--xla_backend_optimization_level=0"
"""The XLA flag for machine code that is not optimised."""


def for_case(case: "Case") -> str:
    """The XLA flags of a run of `case` on any device."""
    return f"{UNOPTIMISED} {SAME_PRECISION}" if case.forms.unoptimised else SAME_PRECISION


def of_other_effort(case: "Case") -> "Case":
    """The case with optimised machine code where it asks for other, and the other way round."""
    return replace(case, spelling=replace(case.forms, unoptimised=not case.forms.unoptimised))
