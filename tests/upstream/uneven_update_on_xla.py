"""A program whose only result is a tensor that is sharded unevenly gives it whole to every device.

A tensor of 9 rows over 2 devices is whole on each of them after an update in place; one of 6 rows stays
sharded. With the argument `load` a distributed checkpoint is loaded into such a tensor before the update was
run, which torch_xla's planner cannot do. Exits 0 while the fault is there.
"""

import os
import sys
import tempfile

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2")
import numpy as np
import torch
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch_xla.experimental.distributed_checkpoint import SPMDLoadPlanner, SPMDSavePlanner

xr.use_spmd()
mesh = xs.Mesh(np.arange(2), (2,), ("dp",))
made = {}
for rows in (6, 9):
    made[rows] = torch.ones(rows, 4).to(torch_xla.device())
    xs.mark_sharding(made[rows], mesh, ("dp", None))
torch_xla.sync()
if sys.argv[1:] == ["load"]:
    with tempfile.TemporaryDirectory() as folder:
        writer = FileSystemWriter(folder, per_thread_copy_ahead=0)
        save({"weight": made[9]}, storage_writer=writer, planner=SPMDSavePlanner(), no_dist=True)
        made[9].zero_()
        try:
            reader = FileSystemReader(folder)
            load({"weight": made[9]}, storage_reader=reader, planner=SPMDLoadPlanner(), no_dist=True)
        except BaseException as error:  # noqa: BLE001  torch's CheckpointException is none of Exception's
            absent = "'ellipsis' object is not iterable" in repr(error)
            print("expected the saved weight, actual", f"{type(error).__name__}: {repr(error)[:110]}")
            sys.exit(0 if absent else 1)
    print("expected and actual: the saved weight", made[9].sum().item())
    sys.exit(1)
for tensor in made.values():
    tensor.add_(1)
    torch_xla.sync()
even, uneven = (torch_xla._XLAC._get_xla_sharding_spec(tensor) for tensor in made.values())  # noqa: SLF001
print("expected", even, "of 6 rows and of 9, actual", uneven, "of 9")
sys.exit(0 if uneven == "{replicated}" != even else 1)
