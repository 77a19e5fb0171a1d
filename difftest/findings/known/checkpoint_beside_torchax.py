"""`torch.distributed.checkpoint` cannot save in a process in which torchax was imported.

torchax registers a module for torch's `privateuse1` devices that says it is available, and has no function
`current_stream`, which the writer of files calls.
"""

import os
import tempfile

os.environ.update(PJRT_DEVICE="CPU", JAX_PLATFORMS="cpu")
import torch
import torchax  # it registers its devices
from torch.distributed.checkpoint.state_dict_saver import save

with tempfile.TemporaryDirectory() as folder:
    save({"weight": torch.ones(2)}, checkpoint_id=folder, no_dist=True)
print("expected and actual: a checkpoint")
