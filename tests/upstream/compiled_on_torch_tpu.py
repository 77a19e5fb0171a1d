"""What `torch.compile` computes wrong on torch_tpu: `python compiled_on_torch_tpu.py [NAME]`.

* singular_values: their gradient is wrong, eager it is right. Nothing is reported.
* views: a result and a view of it, which share memory eagerly, do not. What is written into one is lost.
* fused_adam: the tensors that the functional `_fused_adam` is given are deleted. Eager they are kept.

torch_tpu 0.2.0 with torch 2.15.0, on XLA:CPU: `TPU_LIBRARY_PATH` names the PJRT plugin of
`difftest environments make torch_tpu`. Exits 0 when the faults are there.
"""

import os
import sys

os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}

import torch
from torch_tpu import _loader

_loader._init_device("tpu")  # noqa: SLF001  torch does this itself where it finds a TPU


def gradient(function: object, device: str) -> torch.Tensor:
    given = torch.tensor([[3.5, 0.5], [0.5, 2.5]], device=device, requires_grad=True)
    (function(given) * torch.tensor([1.0, 3.0], device=device)).sum().backward()
    return given.grad.cpu()


def singular_values() -> bool:
    expected = gradient(torch.linalg.svdvals, "cpu")
    eager, actual = (gradient(f, "tpu") for f in (torch.linalg.svdvals, torch.compile(torch.linalg.svdvals)))
    print(f"expected a gradient of {expected.tolist()}, eager {eager.tolist()}, actual {actual.tolist()}")
    return torch.allclose(eager, expected, atol=1e-4) and not torch.allclose(actual, expected, atol=1e-2)


def views() -> bool:
    whole, part = torch.compile(lambda x: (y := x + 1, y[:1]))(torch.zeros(2, 1, device="tpu"))
    part.fill_(7.0)
    print(f"expected [[7.0], [1.0]], actual {whole.tolist()}")
    return whole.tolist() == [[1.0], [1.0]]


def fused_adam() -> bool:
    numbers = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
    options = {**numbers, "amsgrad": False, "maximize": False}
    lists = [[torch.ones(3, device="tpu")] for _ in range(4)]
    update = torch.ops.aten._fused_adam.default  # noqa: SLF001  it has no public name
    compiled = torch.compile(lambda *lists: update(*lists, [], [torch.ones((), device="tpu")], **options))
    compiled(*lists)[0][0].cpu()  # waits for it
    try:
        actual = str(lists[0][0].tolist())
    except RuntimeError as error:
        actual = str(error)
    print(f"expected [1.0, 1.0, 1.0] as before, actual {actual}")
    return "deleted or donated" in actual


FAULTS = {"singular_values": singular_values, "views": views, "fused_adam": fused_adam}
there = [FAULTS[name]() for name in sys.argv[1:] or FAULTS]
sys.exit(0 if all(there) else 1)
