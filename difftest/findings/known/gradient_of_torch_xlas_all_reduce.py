"""`torch_xla.core.functions.all_reduce` passes each replica's own gradient on, which is not reduced over replicas.

Every replica's result depends on every input, so that an input's gradient is the sum over the replicas, as
`torch.distributed.nn.functional.all_reduce` has it; `all_gather` is alike. torch_xla 2.9.0 on the CPU. Exits 0 while
the fault is there.
"""

import os
import sys
import time

os.environ.update(
    PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4", PJRT_CPU_ASYNC_CLIENT="false", XLA_THREAD_POOL_SIZE="16"
)
import torch
import torch_xla
from torch_xla import runtime
from torch_xla._internal import pjrt
from torch_xla.core import functions, xla_model


def replica() -> float:
    own = torch.tensor([1.0]).to(torch_xla.device()).requires_grad_()
    weight = torch.tensor([10.0 ** runtime.global_ordinal()]).to(torch_xla.device())
    (functions.all_reduce(xla_model.REDUCE_SUM, own) * weight).sum().backward()
    while runtime.global_ordinal() and not torch_xla._XLAC._xla_get_num_cached_compilation_graph():
        time.sleep(0.01)  # replicas of one process must share their program: rank 0 compiles it
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
    torch_xla.sync()
    return own.grad.item()


for device in xla_model.get_xla_supported_devices():  # not in the threads, which would race for the entries
    torch_xla._XLAC._set_all_reduce_token(device, None)
actual = list(pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values())
print(f"the sum of gradients 1, 10, 100, 1000: expected 1111 on each, actual {actual}")
sys.exit(actual == [1111.0] * 4)
