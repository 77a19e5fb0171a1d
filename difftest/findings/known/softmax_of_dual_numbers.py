"""The gradient of a softmax of dual numbers fails: its derivative is said to be modified in place.

`torch.func.jvp` of the same is right. torch 2.9.0 and 2.15.0; `log_softmax`, `logsumexp`, `cross_entropy` and
torch's attention fail likewise.
"""

import torch
from torch.autograd import forward_ad

inputs = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64, requires_grad=True)
with forward_ad.dual_level():
    dual = forward_ad.make_dual(inputs, torch.ones_like(inputs) / (1 + inputs.detach().square()))
    derivative = forward_ad.unpack_dual(dual.softmax(dim=0)).tangent
derivative.square().sum().backward()
