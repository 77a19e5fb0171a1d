"""XLA's compiler with less to do: no optimisation of machine code, or one of its HLO passes left out.

A pass whose absence makes the finding disappear is where to look; HLO before and after it is in `--xla_dump_hlo_pass_re`.
"""

from collections.abc import Iterator

from difftest.findings.ablations import Ablation, Asked

ORDER = 30

PASSES = ("algsimp", "fusion", "cse", "transpose-folding")
"""Passes that change what is computed and in which order, and that a program can do without; the partitioner's it cannot."""


def ablations(asked: Asked) -> Iterator[Ablation]:
    """Only XLA compiles."""
    if asked.side == "xla":
        yield asked.with_flags("XLA's backend does not optimise", "--xla_backend_optimization_level=0")
        for name in PASSES:
            yield asked.with_flags(f"XLA's pass {name} is disabled", f"--xla_disable_hlo_passes={name}")
