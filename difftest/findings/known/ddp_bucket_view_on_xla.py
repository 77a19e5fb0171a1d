"""On xla, DDP with `gradient_as_bucket_view` reduces no gradients. Exits 0 when gradients differ."""

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


def gradient(*, view: bool) -> torch.Tensor:
    torch.manual_seed(0)
    module = torch.nn.Linear(2, 1).to(torch_xla.device())
    ddp = torch.nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=view, init_sync=False)
    ddp(torch.full((1, 2), 1.0 + runtime.global_ordinal()).to(torch_xla.device())).sum().backward()
    return module.weight.grad * 1


def replica() -> list[list[float]]:
    rank = runtime.global_ordinal()
    torch.autograd.set_multithreading_enabled(False)
    distributed.distributed_c10d._world.group_count = rank  # groups of one process need different names
    distributed.init_process_group("xla", init_method="xla://")
    gradients = [gradient(view=False), gradient(view=True)]
    while rank and not torch_xla._XLAC._xla_get_num_cached_compilation_graph():
        time.sleep(0.01)  # replicas of one process must share one program: rank 0 compiles it
    torch_xla._XLAC._set_all_reduce_token(str(torch_xla.device()), None)
    torch_xla.sync()
    return [values.flatten().tolist() for values in gradients]


multi_threaded_pg._install_threaded_pg()
for device in ("xla:0", "xla:1"):  # not in the threads, which would race for the entries
    torch_xla._XLAC._set_all_reduce_token(device, None)
results = pjrt._run_thread_per_device(0, 1, replica, pjrt.initialize_multiprocess)
(copied, first), (_, second) = results.values()
print(f"expected {copied} on both ranks, actual {first} and {second}")
sys.exit(0 if first != second else 1)
