"""`ZeroRedundancyOptimizer` undoes what is written into weights after it was made.

It keeps shards of the weights from its construction, steps these, and overwrites the weights: a loaded checkpoint is
lost. torch_xla 2.9.0 on the CPU, two replicas. Exits 0 while the fault is there.
"""

import os
import sys
import threading

os.environ.update(
    PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", PJRT_CPU_ASYNC_CLIENT="false", XLA_THREAD_POOL_SIZE="16"
)
import torch
import torch_xla
from torch_xla import runtime
from torch_xla._internal import pjrt
from torch_xla.core import xla_model
from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

compiled = [threading.Event() for _ in range(2)]


def sync(number: int) -> None:
    if runtime.global_ordinal():
        compiled[number].wait()  # replicas of one process must share their programs: rank 0 compiles them
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
    torch_xla.sync()
    if not runtime.global_ordinal():
        compiled[number].set()


def replica() -> list[float]:
    device = torch_xla.device()
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]).to(device))
    optimizer = ZeroRedundancyOptimizer(
        [weight], torch.optim.SGD, pin_layout=False, grad_clipping=False, lr=0.5
    )
    sync(0)
    with torch.no_grad():
        weight.copy_(torch.tensor([10.0, 20.0]).to(device))  # model.load_state_dict(checkpoint)
    (weight * torch.tensor([1.0 + 2 * runtime.global_ordinal()] * 2).to(device)).sum().backward()
    optimizer.step()
    sync(1)
    return weight.tolist()


for device in xla_model.get_xla_supported_devices():  # not in the threads, which would race for the entries
    torch_xla._XLAC._set_all_reduce_token(device, None)
actual = list(pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values())
print(
    f"weights 10 and 20 less 0.5 times the mean gradient 2: expected [9.0, 19.0] on both ranks, actual {actual}"
)
sys.exit(actual == [[9.0, 19.0]] * 2)
