"""Weights of an operator with several outputs get wrong gradients in zero-bubble schedules, as those of an LSTM do.

torch 2.9.0. `stage_backward_weight` adds up the gradients of all outputs, and takes the sum for the first one's.
Exits 0 while the fault is there.
"""

import sys

import torch
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

torch.manual_seed(0)
lstm, x = torch.nn.LSTM(1, 1), torch.ones(3, 1, 1, requires_grad=True)
output, (hidden, cell) = lstm(x)
y, weights = (output + hidden + cell).sum(), list(lstm.parameters())
expected = torch.autograd.grad(y, weights[0], retain_graph=True)[0].flatten()
_, groups = stage_backward_input([y], [torch.ones(())], [x], iter(weights))
stage_backward_weight(iter(weights), groups)
actual = weights[0].grad.flatten()
print(f"expected {expected.tolist()}, actual {actual.tolist()}")
sys.exit(torch.allclose(actual, expected))
