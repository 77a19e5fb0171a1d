"""What the stand-in for a TPU lacks, which is no fault of torch_tpu's and never a finding.

OpenXLA's CPU plugin (xla-cpu-pjrt 0.0.1) is older than torch_tpu (0.2.0), and is not for a TPU.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layers.collective import Collective
from difftest.ground.errors import UnsupportedError
from workers.training.refusals import Unsupported

PLUGIN = "OpenXLA's CPU plugin, in the place of a TPU,"
"""How every reason begins."""

LIMITS = {
    "kernels for a TPU": re.compile(r"no registered implementation for (untyped )?custom call to"),
    "StableHLO that is newer than the plugin": re.compile(r"failed to serialize StableHLO to plugin version"),
    "factorizations that are not in it": re.compile(r"no FFI handler registered for \w+ on a platform \w+"),
    "memory of the host that a device can read": re.compile(
        r"host memory allocator is not implemented for this"
    ),
    "an operator whose error was lost": re.compile(r"a required argument is in a failed state"),
}
"""By name, what a message says where a program needs something that the CPU plugin lacks.

Of torch_tpu 0.2.0 these are attention by its own kernels, cumulative sums and their like, and LU. The last is
what is said of the result of one that failed, where DTensors are: the first error is nowhere.
"""


def within(unsupported: Unsupported) -> Unsupported:
    """The same for a backend on the CPU plugin: it also refuses sends from rank to rank, which hang there."""

    @wraps(unsupported)
    def refusal(case: Case) -> str | None:
        moved = (layer for _, layer in walk(case.model.layers) if isinstance(layer, Collective))
        if any(layer.operation == "permute" and layer.ranks > 1 for layer in moved):
            return f"{PLUGIN} cannot send from rank to rank"
        return unsupported(case)

    return refusal


def of_stand_in(message: str) -> str | None:
    """Why the CPU plugin cannot run a program, by the message of an error; None for any other error."""
    lacking = (name for name, words in LIMITS.items() if words.search(message))
    name = next(lacking, None)
    return f"{PLUGIN} is not supported to run {name}" if name else None


@contextmanager
def refused(case: Case) -> Iterator[None]:
    """Turns an error of the CPU plugin's limits into what is no finding.

    For a program that is `NotImplementedError`, by which frameworks refuse: a line of the support table. Any
    other case raises `UnsupportedError`.
    """
    try:
        yield
    except Exception as error:
        if reason := of_stand_in(str(error)):
            raise (NotImplementedError if case.model.is_program else UnsupportedError)(reason) from error
        raise
