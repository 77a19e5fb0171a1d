"""Replicas of one process die where a value that follows from an `all_reduce` is read before the sync.

They wait in two different reductions for each other, until XLA:CPU ends the process after some seconds. What
runs on the host reads its operands: `torch.optim.Muon` does so, with reduced gradients. torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")

import torch
import torch_xla
import torch_xla.core.xla_model as xm

STEPS = 3


def replica(_index: int) -> None:
    for _ in range(STEPS):
        total = xm.all_reduce(xm.REDUCE_SUM, torch.ones(2, device=torch_xla.device()))
        total.tolist()
        torch_xla.sync()


if __name__ == "__main__":
    torch_xla.launch(replica)
    print(f"expected and actual: {STEPS} sums on every replica")
