"""`contiguous` of a transposed, sliced or expanded tensor is a view: a write into it changes the original.

`flatten` and `reshape` give views too. Every tensor on XLA says that its memory is contiguous already.
torch_xla 2.9.0 on the CPU. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla  # noqa: F401

FORMS = {
    "transposed": lambda x: x.t().contiguous(),
    "sliced": lambda x: x[:, 1:].contiguous(),
    "expanded": lambda x: x[:1].expand(2, 3).contiguous(),
    "flattened": lambda x: x.t().flatten(),
}


def written(device: str, form: str) -> list[list[float]]:
    x = torch.arange(6.0).reshape(2, 3).to(device)
    FORMS[form](x).add_(10)
    return x.tolist()


def learned(device: str) -> list[float]:
    weight = torch.ones(2, 2).to(device).requires_grad_()
    hidden = weight * torch.tensor([[1.0, 2.0], [3.0, 4.0]]).to(device)
    other = hidden.t().contiguous()
    other.mul_(5)
    (hidden.sum() + other.sum()).backward()
    return weight.grad.cpu().flatten().tolist()


actual = {form: written("xla", form) for form in FORMS} | {"gradient": learned("xla")}
expected = {form: written("cpu", form) for form in FORMS} | {"gradient": learned("cpu")}
for name in expected:
    print(f"{name}: expected {expected[name]}, actual {actual[name]}")
sys.exit(actual == expected)
