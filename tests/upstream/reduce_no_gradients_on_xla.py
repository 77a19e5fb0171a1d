"""`xm.reduce_gradients` of an optimizer without any gradient ends the process with SIGSEGV.

`xm.all_reduce` of an empty list reads the first of its tensors. It is what follows where the optimizer was
made before its module was moved to XLA: it holds the parameters that were replaced. Exits 0 while the fault
is there.
"""

# ruff: noqa: SLF001
import os
import signal
import subprocess
import sys

if sys.argv[1:] != ["run"]:
    done = subprocess.run([sys.executable, __file__, "run"], capture_output=True, text=True, check=False)
    print("expected an end with status 0, actual", done.returncode, done.stderr[-200:])
    sys.exit(0 if done.returncode == -signal.SIGSEGV else 1)

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


pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess)
