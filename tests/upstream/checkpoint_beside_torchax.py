"""`torch.distributed.checkpoint` cannot save in a process in which torchax was imported.

torchax registers a module for torch's `privateuse1` devices that says it is available, and has no function
`current_stream`, which the writer of files calls. Exits 0 while the fault is there.
"""

import os
import sys
import tempfile

os.environ.update(PJRT_DEVICE="CPU", JAX_PLATFORMS="cpu")
import torch
import torchax  # noqa: F401  it registers its devices
from torch.distributed.checkpoint.state_dict_saver import save

try:
    with tempfile.TemporaryDirectory() as folder:
        save({"weight": torch.ones(2)}, checkpoint_id=folder, no_dist=True)
except BaseException as error:  # noqa: BLE001  torch's CheckpointException is none of Exception's
    absent = "has no attribute 'current_stream'" in repr(error)
    print("expected a checkpoint, actual", f"{type(error).__name__}: {repr(error)[:120]}")
    sys.exit(0 if absent else 1)
print("expected and actual: a checkpoint")
sys.exit(1)
