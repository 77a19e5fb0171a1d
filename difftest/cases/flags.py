"""Compiler flags that every run sets alike, and that an ablation changes to see what depends on them."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from difftest.cases.case import Case

SAME_PRECISION = "--xla_allow_excess_precision=false"
"""The XLA flag that keeps no more precision than the dtype between operators."""

UNOPTIMISED_ANYWHERE = "--xla_backend_optimization_level=0"
"""The XLA flag for machine code that is not optimised. The HLO passes and the partitioner run as ever."""

ONE_MODULE = "--xla_cpu_parallel_codegen_split_count=1"
"""XLA:CPU's code as one module of LLVM's."""

WITHOUT_MLIR = "--xla_cpu_use_fusion_emitters=false"
"""XLA:CPU's code without MLIR. XLA dies of a flag that it does not know, as jaxlib's does from 0.11 on."""

UNOPTIMISED = f"{UNOPTIMISED_ANYWHERE} {WITHOUT_MLIR} {ONE_MODULE}"
"""The XLA flags for the cheapest machine code on a CPU."""


def for_case(case: "Case", *, on_cpu: bool = True, with_mlir_alone: bool = False) -> str:
    """The XLA flags of a run of `case`, on XLA:CPU or elsewhere; on a CPU also where it has MLIR alone."""
    if not case.forms.unoptimised:
        return SAME_PRECISION
    cheapest = f"{UNOPTIMISED_ANYWHERE} {ONE_MODULE}" if with_mlir_alone else UNOPTIMISED
    return f"{cheapest if on_cpu else UNOPTIMISED_ANYWHERE} {SAME_PRECISION}"


def of_other_effort(case: "Case") -> "Case":
    """The case with optimised machine code where it asks for other, and the other way round."""
    return replace(case, spelling=replace(case.forms, unoptimised=not case.forms.unoptimised))
