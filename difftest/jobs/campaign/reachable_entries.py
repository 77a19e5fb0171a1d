"""What cases are generated from, for tables that say how much of it was reached."""

from difftest.cases import blocks, features
from difftest.records.totals import BLOCKS, FEATURES, Entries


def reachable_entries() -> Entries:
    """Those of the operator table, and the building blocks and features, from which cases are generated."""
    from generators.operators import table

    entries = table.entries()
    gradients = frozenset(name for name, entry in entries.items() if entry.gradient)
    excluded = {name: entry.excluded for name, entry in entries.items()}
    there = {BLOCKS: frozenset(blocks.names()), FEATURES: frozenset(features.names())}
    return Entries(excluded, gradients, frozenset(table.all_modules()), there)
