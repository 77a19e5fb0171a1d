"""parallelize_module and distribute_module: parameters are trained although they were frozen.

torch 2.9.0, silent. Each that they replicate or shard becomes a new `nn.Parameter`, which requires a gradient.
"""

import sys
import tempfile

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_module

if __name__ == "__main__":
    distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
    norm = nn.LayerNorm(4).requires_grad_(False)
    placed = distribute_module(norm, init_device_mesh("cpu", (1,)))
    trained = [name for name, parameter in placed.named_parameters() if parameter.requires_grad]
    print("expected no parameter that requires a gradient, actual", trained)
    sys.exit(int(not trained))
