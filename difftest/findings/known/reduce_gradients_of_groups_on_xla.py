"""`optimizer_step` and `reduce_gradients` with `groups` divide by all replicas in place of those of a group.

Two groups of two replicas each should average over two. torch_xla 2.9.0 on the CPU. Exits 0 while the fault is
there.
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
from torch_xla.core import xla_model


def replica() -> float:
    weight = torch.nn.Parameter(torch.zeros(1).to(torch_xla.device()))
    (weight * torch.tensor([1.0 + runtime.global_ordinal()]).to(torch_xla.device())).sum().backward()
    optimizer = torch.optim.SGD([weight], lr=1.0)
    xla_model.optimizer_step(optimizer, groups=[[0, 1], [2, 3]], pin_layout=False)
    while runtime.global_ordinal() and not torch_xla._XLAC._xla_get_num_cached_compilation_graph():
        time.sleep(0.01)  # replicas of one process must share their program: rank 0 compiles it
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
    torch_xla.sync()
    return weight.item()


for device in xla_model.get_xla_supported_devices():  # not in the threads, which would race for the entries
    torch_xla._XLAC._set_all_reduce_token(device, None)
actual = list(pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values())
print(f"gradients 1, 2, 3, 4: expected weights [-1.5, -1.5, -3.5, -3.5], actual {actual}")
sys.exit(actual == [-1.5, -1.5, -3.5, -3.5])
