"""`torch.compile` deletes the inputs of functional fused optimizers such as `_fused_adam`.

Eager they are kept.
torch_tpu 0.2.0 with torch 2.15.0, on XLA:CPU: `TPU_LIBRARY_PATH` names the PJRT plugin of
`difftest environments make torch_tpu`.
"""

import os

os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}

import torch
from torch_tpu import _loader

_loader._init_device("tpu")  # torch does this itself where it finds a TPU

numbers = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.0, "eps": 1e-8}
options = {**numbers, "amsgrad": False, "maximize": False}
lists = [[torch.ones(3, device="tpu")] for _ in range(4)]
update = torch.ops.aten._fused_adam.default
compiled = torch.compile(lambda *lists: update(*lists, [], [torch.ones((), device="tpu")], **options))
compiled(*lists)[0][0].cpu()  # waits for it
print("expected [1.0, 1.0, 1.0] as before, actual", lists[0][0].tolist())
