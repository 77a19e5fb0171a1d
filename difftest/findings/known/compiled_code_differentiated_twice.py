"""What `torch.compile` has compiled cannot be differentiated twice, as penalties on slopes need it.

torch 2.9.0 and 2.15.0 refuse it, on the CPU too.
"""

import torch

inputs = torch.ones(3, requires_grad=True)
output = torch.compile(torch.sin, backend="aot_eager")(inputs)
(slope,) = torch.autograd.grad(output.sum(), inputs, create_graph=True)
slope.sum().backward()
