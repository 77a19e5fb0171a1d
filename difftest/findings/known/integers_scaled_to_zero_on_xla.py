"""`xm.all_reduce` and `xm.reduce_scatter` of whole numbers round their factor to a whole number first.

The mean over two ranks, by the factor 1 / 2, is 0. Exits 0 while the fault is there.
"""

import os
import sys
import time

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", PJRT_CPU_ASYNC_CLIENT="false")
import torch
import torch_xla
from torch_xla import runtime
from torch_xla._internal import pjrt
from torch_xla.core import xla_model


def replica() -> list[int]:
    numbers = torch.tensor([2, 4, 6]).to(torch_xla.device())
    means = xla_model.all_reduce(xla_model.REDUCE_SUM, numbers, 0.5, pin_layout=False)
    while runtime.global_ordinal() and not torch_xla._XLAC._xla_get_num_cached_compilation_graph():
        time.sleep(0.01)  # replicas of one process must share their program: rank 0 compiles it
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
    torch_xla.sync()
    return means.tolist()


for device in xla_model.get_xla_supported_devices():  # not in the threads, which would race for the entries
    torch_xla._XLAC._set_all_reduce_token(device, None)
means, _ = pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values()
print(f"expected [2, 4, 6], actual {means}")
sys.exit(0 if means == [0, 0, 0] else 1)
