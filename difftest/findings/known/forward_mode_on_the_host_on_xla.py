"""XLA: forward mode makes its zeros on the host, as torch_xla has no `_efficientzerotensor`.

torch_xla 2.9.0. Numbers are right. Exits 0 while the fault is there.
"""

import os
import sys

os.environ["PJRT_DEVICE"] = "CPU"

import torch
import torch_xla
from torch_xla.debug import metrics

model = torch.nn.Linear(4, 4).to(torch_xla.device())
inputs = torch.ones(2, 4, device=torch_xla.device())
torch.func.jvp(model, (inputs,), (inputs,))
torch_xla.sync()
on_the_host = [name for name in metrics.counter_names() if name.startswith("aten::")]
print(f"expected [], actual {on_the_host}")
sys.exit(int(not on_the_host))
