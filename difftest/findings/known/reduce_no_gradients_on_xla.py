"""`xm.reduce_gradients` of an optimizer without any gradient ends the process with SIGSEGV.

`xm.all_reduce` of an empty list reads the first of its tensors. It is what follows where the optimizer was
made before its module was moved to XLA: it holds the parameters that were replaced. Exits 0 while the fault
is there.
"""

import multiprocessing
import os
import signal
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", PJRT_CPU_ASYNC_CLIENT="false")
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla._internal import pjrt


def replica() -> None:
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to(torch_xla.device())
    model(torch.ones(1, 2).to(torch_xla.device())).sum().backward()
    xm.reduce_gradients(optimizer)


every = 0, 1, replica, pjrt.initialize_multiprocess
process = multiprocessing.get_context("fork").Process(target=pjrt._run_thread_per_device, args=every)
process.start()
process.join()
print("expected an end with status 0, actual", process.exitcode)
sys.exit(0 if process.exitcode == -signal.SIGSEGV else 1)
