"""FSDP1: a full state dict with `offload_to_cpu` of parameters on the CPU reads memory that was freed.

torch 2.9.0. The first of two ranks of torch's fake process group.

Fails by SIGSEGV
"""

import torch
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
model = FullyShardedDataParallel(nn.Linear(4, 4), device_id=torch.device("cpu"), use_orig_params=True)

options = StateDictOptions(full_state_dict=True, cpu_offload=True)
print(get_model_state_dict(model, options=options))
