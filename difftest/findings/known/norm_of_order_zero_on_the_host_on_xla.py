"""`torch.norm` of order 0, the number of entries that are not zero, is computed on the host.

torch_xla's `clip_grad_norm_` takes it once a gradient, and so waits for the device as often.

torch_xla 2.9.0 on the CPU. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch_xla
from torch_xla.debug import metrics

tensor = torch.ones(3, device=torch_xla.device())
runs = []
for order in (1.0, 2.0, 3.0, 0.0):
    metrics.clear_all()
    torch.norm(tensor, p=order)
    torch_xla.sync()
    runs.append(
        sum(metrics.counter_value(name) for name in metrics.counter_names() if name.startswith("aten::"))
    )
print(f"norms on the host: expected none, actual {runs[:3]} of orders 1 to 3, {runs[3]} of order 0")
sys.exit(0 if runs[0] == runs[1] == 0 < runs[3] else 1)
