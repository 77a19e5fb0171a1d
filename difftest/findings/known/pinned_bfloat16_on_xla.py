"""A collective of bfloat16 is not supported on the CPU with pinned layouts, which are torch_xla's default.

`xm.broadcast_master_param` of a bfloat16 model is one; there the error ends the process with SIGABRT, because
another thread raises it. The same collective works with `pin_layout=False`. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", PJRT_CPU_ASYNC_CLIENT="false")
import torch
import torch_xla
from torch_xla import runtime
from torch_xla._internal import pjrt
from torch_xla.core import xla_model


def replica() -> str:
    numbers = torch.ones(2, dtype=torch.bfloat16).to(torch_xla.device())
    xla_model.all_reduce(xla_model.REDUCE_SUM, [numbers])
    if runtime.global_ordinal() == 0:  # the compiler raises the error, so one rank suffices
        try:
            torch_xla._XLAC._xla_sync_multi([numbers], [str(torch_xla.device())])
        except ValueError as error:
            return str(error)
    return ""


message = "".join(pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values())
print("expected a sum, actual", message, flush=True)
sys.stdout.flush()
os._exit(0 if "AllReduce for datatype 'bf16' is not supported" in message else 1)
