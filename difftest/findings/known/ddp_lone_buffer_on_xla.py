"""DDP's broadcast on xla leaves zeros on every rank but 0 if a tensor is the only one of its dtype.

Examples are a module's only parameter, or the bool mask of an attention layer. Flattened alone, a tensor is a
view, and the reduction does not update its base. Exits 0 when the fault is there.
"""

import os
import sys
import time

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="2", PJRT_CPU_ASYNC_CLIENT="false", MASTER_PORT="0")
import torch
import torch_xla
from torch import distributed
from torch.testing._internal.distributed import multi_threaded_pg
from torch_xla import runtime
from torch_xla._internal import pjrt
from torch_xla.core import xla_model


def replica() -> list[float]:
    rank = runtime.global_ordinal()
    distributed.distributed_c10d._world.group_count = rank  # groups of one process need different names
    distributed.init_process_group("xla", init_method="xla://")
    weight = torch.full((2, 2), 1.0 + rank).to(torch_xla.device())
    distributed._broadcast_coalesced(
        distributed.group.WORLD, [weight], 1 << 20, 0
    )  # what DistributedDataParallel calls
    while rank and not torch_xla._XLAC._xla_get_num_cached_compilation_graph():
        time.sleep(0.01)  # replicas of one process must share one program: rank 0 compiles it
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
    torch_xla.sync()
    return weight.flatten().tolist()


multi_threaded_pg._install_threaded_pg()
for device in xla_model.get_xla_supported_devices():  # not in the threads, which would race for the entries
    torch_xla._XLAC._set_all_reduce_token(device, None)
one, other = pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess).values()
print(f"expected {[1.0] * 4} on both ranks, actual {one} and {other}")
sys.exit(0 if other == [0.0] * 4 else 1)
