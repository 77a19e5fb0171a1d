"""`DistributedDataParallel` on XLA: torch's wrapper over the process group `xla`.

Every device holds one replica. The wrapper has the options of the case.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from difftest.cases.case import Case
from difftest.cases.feature import has, of
from difftest.cases.features import communication_hook
from workers import sides
from workers.backends import torch_ddp
from workers.training.refusals import for_modules_only
from workers.xla import devices, legitimate, pinning, replicas

if TYPE_CHECKING:
    from torch import nn

    from workers.training.session import Session

TITLE = 'DDP over "xla"'
SIDE = "xla"
FRAMEWORK = "torch_xla"
PROFILE = sides.TORCH_XLA
PRELOAD = devices.PRELOAD
processes = replicas.processes

STORELESS = {"TORCH_DIST_INIT_BARRIER": "0", "XLA_USE_DUMMY_STORE": "1"}
"""torch_xla's own switches that leave out the store of its process group.

The store serves only a barrier as the group is made, and listens on every network interface.
"""


@for_modules_only
def unsupported(case: Case) -> str | None:
    """Why replicas cannot have the layout, or the wrapper cannot verify shapes, or None."""
    if case.forms.verified_shapes and processes(case) == 1:
        return "the verification of shapes has a graph for each rank; replicas on the CPU must share one"
    if pinning.learned(case):
        return "collectives that gradients go through are those of torch's process groups"
    hook = of(case, communication_hook.Options)
    if hook and hook.kind in communication_hook.FACTORED:
        return "PowerSGD writes into views of a bucket, which XLA's are not"
    if has(case, "sharded_optimizer"):
        return "torch's ZeroRedundancyOptimizer is not for XLA; xla_replica has torch_xla's"
    return replicas.unsupported(case)


def environment(case: Case) -> dict[str, str]:
    """As all replicas'; where they are one process no store is needed."""
    return replicas.environment(case) | (STORELESS if processes(case) == 1 else {})


@contextmanager
def session(case: Case, rank: int, _rendezvous: str) -> Iterator["Session"]:
    """Wraps each replica's module; all ranks are one group."""
    with (
        _groups_kept_apart() if processes(case) == 1 else nullcontext(),
        replicas.session(case, rank, _place, partial(torch_ddp.quiet, case.replication)) as joined,
    ):
        yield joined


@contextmanager
def _groups_kept_apart() -> Iterator[None]:
    """Gives every thread its own default group, as torch_xla does on TPUs whose chips share a process.

    The groups' names are the process's. They are free again in the end, for the next case.
    """
    from torch._C._distributed_c10d import _unregister_all_process_groups
    from torch.testing._internal.distributed import multi_threaded_pg

    multi_threaded_pg._install_threaded_pg()  # noqa: SLF001  torch_xla.experimental.pjrt_backend calls it too
    try:
        yield
    finally:
        _unregister_all_process_groups()


def _place(replica: replicas.Replica, module: "nn.Module") -> "nn.Module":
    from torch import distributed

    if processes(replica.case) == 1:  # groups are registered by name, which is a count, for the whole process
        distributed.distributed_c10d._world.group_count = replica.rank  # noqa: SLF001
    distributed.init_process_group("xla", init_method="xla://")
    replica.reader.further_tensors = replica.case.world_size * legitimate.TENSORS_OF_BUCKETS
    return torch_ddp.wrap(replica.case, replica.move(torch_ddp.start(replica.case, replica.rank, module)))
