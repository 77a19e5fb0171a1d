"""`xm.all_reduce` with its default, pinned layouts, fails in a program that also reduces by a process group.

torch_xla's process group, and so DDP, never pins layouts, and XLA refuses a mixture. Adding up the loss with
`xm.all_reduce(xm.REDUCE_SUM, loss)` beside DDP is enough. The mixture is known from pytorch/xla issue 3423.
Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", PJRT_CPU_ASYNC_CLIENT="false", MASTER_PORT="0")
import torch
import torch_xla
from torch import distributed
from torch.testing._internal.distributed import multi_threaded_pg
from torch_xla import runtime
from torch_xla._internal import pjrt
from torch_xla.core import xla_model


def replica() -> str:
    rank = runtime.global_ordinal()
    distributed.distributed_c10d._world.group_count = rank  # groups of one process need different names
    distributed.init_process_group("xla", init_method="xla://")
    gradient, loss = torch.ones(2, 2).to(torch_xla.device()), torch.ones(()).to(torch_xla.device())
    distributed.all_reduce(gradient)
    loss = xla_model.all_reduce(xla_model.REDUCE_SUM, loss)
    try:  # the compiler is what refuses, on any rank
        if rank == 0:
            torch_xla._XLAC._xla_sync_multi([gradient, loss], [str(torch_xla.device())], wait=True)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""


multi_threaded_pg._install_threaded_pg()
for device in xla_model.get_xla_supported_devices():  # not in the threads, which would race for the entries
    torch_xla._XLAC._set_all_reduce_token(device, None)
message = pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess)[0]
print(f"expected no error, actual: {message}")
sys.exit(0 if "a mix of layout constrained and unconstrained AllReduce" in message else 1)
