"""Replicas that are threads of one process race in their first collectives, and one crashes.

No lock guards the `unordered_map` `g_all_reduce_tokens`, where a device's first collective inserts an entry
while the interpreter lock is released. Exits 0 when a process crashes.
"""

import os
import sys
import threading

REPLICAS, PROCESSES = 64, 600  # two replicas race more rarely
os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES=str(REPLICAS))
import torch
import torch_xla
from torch_xla._internal import pjrt
from torch_xla.core import xla_model

together = threading.Barrier(REPLICAS)


def replica() -> int:
    """Trace a collective without running it. Returns how many collectives the graph contains."""
    tensor = torch.ones(1, device=torch_xla.device())
    together.wait()
    xla_model.all_reduce(xla_model.REDUCE_SUM, [tensor])
    return torch_xla._XLAC._get_xla_tensors_text([tensor]).count("cross_replica_sum")


def status() -> int:
    """Run all replicas in a child process and return its exit status.

    0 for success, 1 if one replica also traced another's collective, or the negative number of a signal.
    """
    child = os.fork()
    if not child:
        counts = pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values()
        os._exit(set(counts) != {1})
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


failed = next((code for _ in range(PROCESSES) if (code := status())), 0)
print(f"expected exit status 0 of {PROCESSES} processes, actual {failed} of one")
sys.exit(0 if failed else 1)
