"""Fused optimizers on the CPU ignore strides: updates after `channels_last` mix up elements.

A module is moved to `channels_last` between two steps, so that the weight and its momentum differ in strides.
torch 2.9.0 and 2.15.0. Exits 0 while the fault is there.
"""

import sys

import torch

CALLS = {
    "Adagrad": {"lr": 0.1},
    "Adam": {"lr": 0.1},
    "AdamW": {"lr": 0.1},
    "SGD": {"lr": 0.1, "momentum": 0.9},
}


def trained(optimizer: str, *, fused: bool) -> torch.Tensor:
    """The kernel of a convolution after two steps."""
    torch.manual_seed(0)
    module = torch.nn.Conv2d(4, 4, 3)
    rule = getattr(torch.optim, optimizer)(module.parameters(), fused=fused, **CALLS[optimizer])
    for memory in (torch.contiguous_format, torch.channels_last):
        module.to(memory_format=memory)
        rule.zero_grad()
        module(torch.randn(2, 4, 8, 8)).square().sum().backward()
        rule.step()
    return module.weight.detach()


missing = []
for name in CALLS:
    expected, actual = trained(name, fused=False), trained(name, fused=True)
    error = (expected - actual).abs().max().item()
    print(
        f"{name}: expected {expected[0, 0, 0].tolist()}, actual {actual[0, 0, 0].tolist()}, error {error:.2g}"
    )
    missing += [] if error > 1e-3 else [name]
sys.exit(f"not there: {missing}" if missing else 0)
