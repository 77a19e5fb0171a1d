"""torch_xla's gradient accumulation with `save_on_cpu` gives wrong numbers, and no error.

The body is traced once. What goes to the host then is computed from the placeholders of that trace, and is a
constant in every iteration. torch_xla 2.9.0 on the CPU. Exits 0 when the fault is there.
"""

import copy
import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch import nn
from torch_xla.experimental.gradient_accumulation import gradient_accumulation

torch.manual_seed(0)
host, parts = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4)), torch.randn(2, 3, 4)
model = copy.deepcopy(host).to("xla")


def loss(part: torch.Tensor, of: nn.Module = model) -> torch.Tensor:
    with torch.autograd.graph.save_on_cpu():
        return of(part).square().mean()


total = gradient_accumulation(loss, (parts.to("xla"),), model)
torch_xla.sync()
actual = total.item(), model[0].bias.grad[0].item()
expected_total = sum(loss(part, host) for part in parts) / 2
expected_total.backward()
expected = expected_total.item(), host[0].bias.grad[0].item()
print(f"expected loss and gradient {expected}, actual {actual}")
sys.exit(1 if torch.allclose(torch.tensor(expected), torch.tensor(actual), rtol=1e-3) else 0)
