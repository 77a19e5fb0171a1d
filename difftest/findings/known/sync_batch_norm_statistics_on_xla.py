"""`SyncBatchNorm` keeps the biased variance, and the graph of every step with it.

Its statistics require gradients, so that a backward pass in evaluation mode fails. torch_xla 2.9.0 on the CPU. Exits
0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch_xla.core.functions import SyncBatchNorm


def run(norm: torch.nn.Module, device: str) -> tuple[list[float], bool, str]:
    x = torch.tensor([[0.0], [2.0]]).to(device).requires_grad_()
    norm(x).square().sum().backward()
    variance, learns = norm.running_var.tolist(), norm.running_var.requires_grad
    norm.eval()
    try:
        for _ in range(2):
            norm(x).sum().backward()
            torch_xla.sync()
    except RuntimeError as error:
        return variance, learns, str(error)[:50]
    return variance, learns, "trains"


actual = run(SyncBatchNorm(1, momentum=1.0).to("xla"), "xla")
expected = run(torch.nn.BatchNorm1d(1, momentum=1.0), "cpu")
print(
    f"variance, whether it requires a gradient, and training in evaluation mode: expected {expected}, actual {actual}"
)
sys.exit(actual == expected)
