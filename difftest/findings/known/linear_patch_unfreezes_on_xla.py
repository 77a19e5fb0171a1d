"""SPMD: `apply_xla_patch_to_nn_linear` unfreezes weights, unties them, and drops hooks and subclasses.

It makes new parameters that all require gradients. So training moves a frozen layer, and two layers that shared a
weight drift apart. torch_xla 2.9.0 on the CPU. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="4")
import torch
import torch_xla
import torch_xla.runtime as xr
from torch import nn
from torch_xla.distributed.spmd.xla_sharding import apply_xla_patch_to_nn_linear

xr.use_spmd()


class Shifted(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


def build() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False), nn.Linear(2, 2), Shifted(2, 2)
    )
    model[1].weight = model[0].weight
    model[2].requires_grad_(False)
    model[2].register_forward_hook(lambda module, inputs, output: output * 2)
    return model


def step(model: nn.Module, device: str) -> list[float]:
    x = torch.tensor([[1.0, 2.0]]).to(device)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    output = model(x)
    output.sum().backward()
    optimizer.step()
    torch_xla.sync()
    return [
        round(t.detach().cpu().double().sum().item(), 4)
        for t in (output, model[0].weight, model[1].weight, model[2].weight)
    ]


model = apply_xla_patch_to_nn_linear(build()).to("xla")
actual = step(model, "xla")
expected = step(build(), "cpu")
print(
    f"sums of the output, two tied weights, and a frozen one after a step: expected {expected}, actual {actual}"
)
print(
    f"frozen weight requires a gradient: {model[2].weight.requires_grad}, tied: {model[0].weight is model[1].weight}"
)
sys.exit(actual == expected)
