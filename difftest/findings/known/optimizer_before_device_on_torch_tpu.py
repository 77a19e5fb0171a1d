"""An optimizer made before the module moves to torch_tpu trains nothing: `to` makes new parameters.

On other devices `to` keeps the parameters. The optimizer still has the old ones, whose gradients are None.
It steps without a warning.

torch_tpu 0.2.0 with torch 2.15.0, on XLA:CPU: `TPU_LIBRARY_PATH` names the PJRT plugin of
`difftest environments make torch_tpu`. Exits 0 while the fault is there.
"""

import os
import sys

os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}

import torch
from torch import nn
from torch_tpu import _loader

_loader._init_device("tpu")  # torch does this itself where it finds a TPU


def trained(device: str) -> list[float]:
    """A weight of ones after one step."""
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model.to(device)
    model(torch.ones(1, 2, device=device)).sum().backward()
    optimizer.step()
    return model.weight.flatten().tolist()


expected, actual = trained("cpu"), trained("tpu")
print(f"expected {expected}, actual {actual}")
sys.exit(0 if (expected, actual) == ([0.5, 0.5], [1.0, 1.0]) else 1)
