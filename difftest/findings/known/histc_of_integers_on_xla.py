"""`histc` of whole numbers fails on XLA, where it runs on the host: torch has it for them on a GPU alone.

torch_xla 2.9.0. The experts of transformers 5 count the tokens of each expert so on every device but the CPU.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

experts = torch.tensor([0, 1, 1, 3], dtype=torch.int32, device=torch_xla.device())
print("expected [1, 2, 0, 1], actual", torch.histc(experts, bins=4, min=0, max=3))
