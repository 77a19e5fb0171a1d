"""`scan_layers` of pure layers runs those of another model, and trains nothing that was frozen at first.

A traced layer is cached by `id()` of the first layer, which a later model's may have, and not by what requires
gradients. torch_xla 2.9.0 on the CPU. Exits 0 while the fault is there.
"""

import copy
import gc
import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch import nn
from torch_xla.experimental.scan_layers import scan_layers

x = torch.tensor([[1.0, -1.0]]).to("xla")


def build(act: type[nn.Module]) -> nn.ModuleList:
    torch.manual_seed(0)
    return nn.ModuleList([nn.Sequential(nn.Linear(2, 2), act()) for _ in range(2)]).to("xla")


def wrong_outputs() -> int:
    wrong = 0
    for number in range(24):
        layers = build((nn.Tanh, nn.ReLU, nn.Sigmoid)[number % 3])
        actual = scan_layers(layers, x, is_layer_pure=True).cpu()
        host = copy.deepcopy(layers).cpu()
        with torch.no_grad():
            wrong += not torch.allclose(actual, host[1](host[0](x.cpu())), atol=1e-4)
        del layers, actual, host
        gc.collect()
    return wrong


def gradients(frozen_first: bool) -> list[bool]:
    layers = build(nn.Tanh).requires_grad_(not frozen_first)
    keep.append(layers)
    scan_layers(layers, x, is_layer_pure=True)  # an evaluation, or a step of training the head alone
    layers.requires_grad_(True)
    inputs = x.clone().requires_grad_()
    scan_layers(layers, inputs, is_layer_pure=True).sum().backward()
    torch_xla.sync()
    return [parameter.grad is not None for parameter in layers.parameters()]


keep: list[nn.Module] = []
frozen, trained = all(gradients(True)), all(gradients(False))
wrong = wrong_outputs()
print(
    f"expected 0 wrong outputs of 24 models, actual {wrong}; all have gradients: expected True after freezing, actual {frozen}; otherwise {trained}"
)
sys.exit(frozen and not wrong)
