"""XLA's compiler with less to do: no optimisation of machine code, or a pass less; or the other partitioner.

A pass without which the finding disappears is where to look; `--xla_dump_hlo_pass_re` dumps the HLO before
and after it.
"""

from collections.abc import Iterator

from difftest.cases.flags import UNOPTIMISED
from difftest.findings.ablations import Ablation, Baseline

ORDER = 30

PASSES = ("algsimp", "fusion", "cse", "transpose-folding")
"""Passes that change what is computed, or in which order, and that can be left out.

The partitioner's cannot.
"""

ON_JAX = "JAX_PLATFORMS"
"""JAX's variable for its devices, with which what runs on JAX starts."""


def ablations(baseline: Baseline) -> Iterator[Ablation]:
    """Those of the XLA side; nothing else compiles."""
    if baseline.side == "xla":
        if not baseline.case.forms.unoptimised:  # else optimising is the ablation of that form
            yield baseline.with_flags("XLA's backend does not optimise", UNOPTIMISED)
        for name in PASSES:
            yield baseline.with_flags(f"XLA's pass {name} is disabled", f"--xla_disable_hlo_passes={name}")
        if ON_JAX in baseline.environment and baseline.case.world_size > 1:
            name = "GSPMD partitions, as under torch_xla, and not Shardy"
            yield baseline.changed(name, JAX_USE_SHARDY_PARTITIONER="0")
