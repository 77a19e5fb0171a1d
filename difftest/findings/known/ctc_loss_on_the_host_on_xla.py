"""`ctc_loss` runs on the host: every step of a speech model sends its log probabilities there.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn import functional
from torch_xla.debug import metrics

XLA = torch_xla.device()
logs = torch.zeros(6, 2, 5, requires_grad=True, device=XLA).log_softmax(-1)
targets = torch.tensor([[1, 2], [3, 1]]).to(XLA)
metrics.clear_counters()
functional.ctc_loss(logs, targets, torch.tensor([6, 6]), torch.tensor([2, 2])).backward()
torch_xla.sync()
actual = metrics.executed_fallback_ops()
print(f"expected no operator on the host, actual {actual}")
sys.exit(not any("_ctc_loss" in ran for ran in actual))
