"""Compiler flags that every run sets alike, and that an ablation changes to see what depends on them."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from difftest.cases.case import Case

SAME_PRECISION = "--xla_allow_excess_precision=false"
"""The XLA flag that keeps no more precision than the dtype between operators."""

UNOPTIMISED = (
    "--xla_backend_optimization_level=0"
    " --xla_cpu_use_fusion_emitters=false"
    " --xla_cpu_parallel_codegen_split_count=1"
)
"""The XLA flags for the cheapest machine code: not optimised, without MLIR, and as one module of LLVM's.

On a GPU and on a TPU the last two change nothing. The HLO passes and the partitioner run as ever.
"""


def for_case(case: "Case") -> str:
    """The XLA flags of a run of `case` on any device."""
    return f"{UNOPTIMISED} {SAME_PRECISION}" if case.forms.unoptimised else SAME_PRECISION


def of_other_effort(case: "Case") -> "Case":
    """The case with optimised machine code where it asks for other, and the other way round."""
    return replace(case, spelling=replace(case.forms, unoptimised=not case.forms.unoptimised))
