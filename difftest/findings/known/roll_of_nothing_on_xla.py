"""`roll` of a tensor without elements ends the process on XLA: a division by its size, which is 0.

torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import multiprocessing
import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla


def crash() -> None:
    torch.ones(0, device=torch_xla.device()).roll(1).cpu()


process = multiprocessing.get_context("fork").Process(target=crash)
process.start()
process.join()
print(f"expected exit status 0, actual {process.exitcode}")
sys.exit(0 if process.exitcode < 0 else 1)
