"""`scan`, and `torch.nn.GRU` which calls it, fails where replicas are threads of one process.

Each thread traces the body with torch's AOT autograd, whose state is the process's: the threads' traces mix.
Which assertion fails is chance. torch_xla 2.9.0 on the CPU.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")

import torch
import torch_xla

ATTEMPTS = 20


def replica(_index: int) -> None:
    for _ in range(ATTEMPTS):
        recurrent = torch.nn.GRU(2, 4).to(torch_xla.device())
        output, _ = recurrent(torch.ones(3, 1, 2, device=torch_xla.device()))
        output.sum().backward()


if __name__ == "__main__":
    torch_xla.launch(replica)
    print(f"expected and actual: {ATTEMPTS} gradients on every replica")
