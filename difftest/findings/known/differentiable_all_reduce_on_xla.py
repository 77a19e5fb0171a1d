"""The gradients of `functions.all_reduce` are 0 for a scaled maximum, and scaled twice for a product.

torch_xla 2.9.0 on the CPU, two replicas. Exits 0 while the fault is there.
"""

import os
import sys
import time

os.environ.update(
    PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", PJRT_CPU_ASYNC_CLIENT="false", XLA_THREAD_POOL_SIZE="16"
)
import torch
import torch_xla
from torch_xla import runtime
from torch_xla._internal import pjrt
from torch_xla.core import functions, xla_model

INPUTS = [[0.0, 4.0], [2.0, 3.0]]


def replica() -> list[list[float]]:
    gradients = []
    for kind, scale in ((xla_model.REDUCE_MAX, 0.5), (xla_model.REDUCE_MUL, 0.5)):
        x = torch.tensor(INPUTS[runtime.global_ordinal()]).to(torch_xla.device()).requires_grad_()
        functions.all_reduce(kind, x, scale=scale, groups=[[0, 1]]).sum().backward()
        gradients.append(x.grad)
    while runtime.global_ordinal() and not torch_xla._XLAC._xla_get_num_cached_compilation_graph():
        time.sleep(0.01)  # replicas of one process must share their program: rank 0 compiles it
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
    torch_xla.sync()
    return [gradient.tolist() for gradient in gradients]


for device in xla_model.get_xla_supported_devices():  # not in the threads, which would race for the entries
    torch_xla._XLAC._set_all_reduce_token(device, None)
actual = list(pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values())
whole = torch.tensor(INPUTS, dtype=torch.float64, requires_grad=True)
expected = [
    torch.autograd.grad((reduce(whole) * 0.5).sum(), whole)[0].tolist()
    for reduce in (lambda x: x.amax(0), lambda x: x.prod(0))
]
expected = [[expected[0][rank], expected[1][rank]] for rank in range(2)]
print(
    f"gradients of half the maximum and half the product, rank by rank: expected {expected}, actual {actual}"
)
sys.exit(actual == expected)
