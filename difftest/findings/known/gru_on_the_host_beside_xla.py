"""After `import torch_xla`, `torch.nn.GRU` is torch_xla's own class, and fails on the host.

torch_xla 2.9.0 replaces it for every module of the process, also for those that never move to a device.
Exits 0 while the fault is there.
"""

import os
import sys

os.environ["PJRT_DEVICE"] = "CPU"
import torch
import torch_xla  # it is enough that this is imported
from torch.nn.modules.rnn import GRU  # as torch wrote it
from torch.nn.utils.rnn import pack_sequence

missing = []
for name, batch in {"tensor": torch.ones(3, 1, 2), "packed": pack_sequence([torch.ones(3, 2)])}.items():
    expected = type(GRU(2, 4)(batch)[0]).__name__
    try:
        actual = type(torch.nn.GRU(2, 4)(batch)[0]).__name__
    except Exception as error:  # whichever it is
        actual = f"{type(error).__name__}: {str(error)[:100]}"
    print(f"{name}: expected {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
