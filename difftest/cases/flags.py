"""Compiler flags that every run sets alike, and that an ablation changes to see what depends on them."""

SAME_PRECISION = "--xla_allow_excess_precision=false"
"""The XLA flag that keeps no more precision than the dtype between operators."""
