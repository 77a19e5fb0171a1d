"""What torch_xla's backends may do on the host or beside their own graphs, each with the reason.

The check of where the work was done reports everything that is not listed here.
"""

from collections.abc import Mapping

OPERATORS: Mapping[str, str] = {}
"""By torch_xla's counter, why the operator may run on the host."""

GRAPHS_OF_A_SCAN = 1
"""`gradient_accumulation` runs what is pending before its loop, once a step (torch_xla 2.9)."""

TENSORS_OF_BUCKETS = 2
"""`DistributedDataParallel` reads the order and the sizes of its buckets, once, on every rank (torch 2.9)."""
