"""Without optimisation XLA's tanh of a large number is 0.99999982 on the CPU; the gradient of mish is wrong.

torch_xla 2.9.0, float32. Exits 0 when the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", XLA_FLAGS="--xla_backend_optimization_level=0")
import torch
import torch_xla

numbers = torch.tensor([20.0, 1e7])
parameter = numbers.to(torch_xla.device()).requires_grad_()
torch.nn.functional.mish(parameter).sum().backward()
tanh, gradient = torch.tanh(parameter).tolist(), parameter.grad.tolist()
print(f"expected tanh [1.0, 1.0] and gradient of mish [1.0, 1.0], actual {tanh} and {gradient}")
sys.exit(0 if tanh[1] < 1 and gradient[1] > 2 else 1)
