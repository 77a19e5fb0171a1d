"""Compiler flags that every run sets alike, and that an ablation changes to see what depends on them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from difftest.cases.case import Case

SAME_PRECISION = "--xla_allow_excess_precision=false"
"""The XLA flag that keeps no more precision than the dtype between operators."""

UNOPTIMISED = "--xla_backend_optimization_level=0"
"""The XLA flag for machine code that is not optimised."""


def for_case(case: "Case") -> str:
    """The XLA flags of a run of `case` on any device."""
    return f"{UNOPTIMISED} {SAME_PRECISION}" if case.forms.unoptimised else SAME_PRECISION
