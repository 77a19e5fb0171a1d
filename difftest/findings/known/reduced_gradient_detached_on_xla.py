"""`xm.optimizer_step` with momentum uses the values that an accumulated gradient had before its reduction.

The weight gradient of a Linear layer is a transposed view. `xm.reduce_gradients` reduces it in place, which
does not update its base, and momentum's `detach()` is computed from the base. Exits 0 when the replicas'
weights differ.
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


def sync(programs: int) -> None:
    while runtime.global_ordinal() and torch_xla._XLAC._xla_get_num_cached_compilation_graph() < programs:
        time.sleep(0.01)  # replicas of one process must share their programs: rank 0 compiles them
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
    torch_xla.sync()


def replica() -> float:
    weight = torch.nn.Parameter(torch.zeros(1, 1).to(torch_xla.device()))
    optimizer = torch.optim.SGD([weight], lr=1.0, momentum=0.5)
    inputs = torch.tensor([[1.0 + 2.0 * runtime.global_ordinal()]]).to(torch_xla.device())
    for part in range(2):
        torch.nn.functional.linear(inputs, weight).sum().backward()
        sync(programs=part + 1)
    xla_model.optimizer_step(optimizer, pin_layout=False)
    sync(programs=3)
    return weight.item()


for device in xla_model.get_xla_supported_devices():  # not in the threads, which would race for the entries
    torch_xla._XLAC._set_all_reduce_token(device, None)
one, other = pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values()
print(f"expected weight -4 on both ranks, actual {one:g} and {other:g}")
sys.exit(0 if one != other else 1)
