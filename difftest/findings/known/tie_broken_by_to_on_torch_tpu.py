"""Moving a module to torch_tpu breaks the ties between its weights: each module gets a parameter of its own.

On other devices `to` keeps ties. Both copies are then trained, each by its own half of the gradient, without
a warning.

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


def gradient(device: str) -> tuple[int, torch.Tensor]:
    """The number of parameters of a tied model on a device, and the gradient of the embedding."""
    embedding, head = nn.Embedding(3, 2), nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        embedding.weight.fill_(1.0)
    head.weight = embedding.weight
    model = nn.Sequential(embedding, head).to(device)
    model(torch.tensor([0, 1], device=device)).sum().backward()
    return len(list(model.parameters())), embedding.weight.grad.cpu()


(expected, right), (actual, wrong) = gradient("cpu"), gradient("tpu")
print(f"expected {expected} parameter with gradient {right.tolist()}, actual {actual} with {wrong.tolist()}")
sys.exit(0 if actual == 2 and not torch.equal(right, wrong) else 1)
