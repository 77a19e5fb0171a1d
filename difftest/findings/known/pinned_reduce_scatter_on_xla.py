"""`xm.reduce_scatter` of a list of tensors aborts with pinned layouts, which are its default.

With `pin_layout=False`, and with one tensor, it works.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", PJRT_CPU_ASYNC_CLIENT="false")
import torch
import torch_xla
from torch_xla import runtime
from torch_xla._internal import pjrt
from torch_xla.core import xla_model


def replica() -> None:
    numbers = torch.ones(2, 3).to(torch_xla.device())
    parts = xla_model.reduce_scatter(xla_model.REDUCE_SUM, [numbers, 2 * numbers], 1.0, 0, 2)
    if runtime.global_ordinal() == 0:  # the compiler is what aborts
        torch_xla._XLAC._xla_sync_multi(parts, [str(torch_xla.device())])


pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess)
