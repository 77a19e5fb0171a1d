"""Replicas that are threads of one process race for the tokens of their first collectives, and one crashes. Exits 0 when one does.

The tokens that order collectives are in an `unordered_map` of torch_xla's (`g_all_reduce_tokens`) that no lock guards. A device's first
collective makes its entry there, with the interpreter released. Sixty-four devices race more often than two.
"""

# ruff: noqa: SLF001
import os
import sys
import threading

REPLICAS, PROCESSES = 64, 600
os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES=str(REPLICAS))
import torch
import torch_xla
from torch_xla._internal import pjrt
from torch_xla.core import xla_model

together = threading.Barrier(REPLICAS)


def replica() -> int:
    """Traces a collective, which nothing runs; how many its graph has."""
    tensor = torch.ones(1, device=torch_xla.device())
    together.wait()
    xla_model.all_reduce(xla_model.REDUCE_SUM, [tensor])
    return torch_xla._XLAC._get_xla_tensors_text([tensor]).count("cross_replica_sum")


def status() -> int:
    """Of a process with all replicas: 0, or 1 where one traced another's collective too, or less for a signal's number."""
    child = os.fork()
    if not child:
        os._exit(
            set(pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values()) != {1}
        )
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


ended = next((ended for _ in range(PROCESSES) if (ended := status())), 0)
print(f"expected exit status 0 of {PROCESSES} processes, actual {ended} of one")
sys.exit(0 if ended else 1)
