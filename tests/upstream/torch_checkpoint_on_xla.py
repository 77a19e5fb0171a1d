"""`torch.utils.checkpoint` fails on XLA with its default of keeping the state of the random generators.

torch looks for the module `torch.xla`, which does not exist; torch_xla has a checkpoint function of its own,
which its documentation of FSDP names. With the argument `reentrant` the state is not kept, and
`use_reentrant=True` looks for the module all the same. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU")
import torch
import torch_xla
from torch.utils.checkpoint import checkpoint

reentrant = sys.argv[1:] == ["reentrant"]
message = "torch has no module of `xla`" if reentrant else "'torch' has no attribute 'xla'"
inputs = torch.ones(2).to(torch_xla.device()).requires_grad_()
try:
    checkpoint(torch.sin, inputs, use_reentrant=reentrant, preserve_rng_state=not reentrant).sum().backward()
except (AttributeError, RuntimeError) as error:
    print("expected a gradient, actual", error)
    sys.exit(0 if message in str(error) else 1)
print("expected and actual: a gradient", inputs.grad)
sys.exit(1)
