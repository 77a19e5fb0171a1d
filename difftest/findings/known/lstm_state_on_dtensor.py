"""An LSTM of DTensors makes plain zeros for its state, which it then gives to operators of DTensors.

torch 2.9.0 and 2.15.0. Nothing is sharded; the process group is torch's fake one.
"""

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
module = torch.nn.LSTM(2, 3, bias=False)
named = {
    name: distribute_tensor(weight.detach(), mesh, [Replicate()])
    for name, weight in module.named_parameters()
}
batch = distribute_tensor(torch.rand(2, 2), mesh, [Replicate()])
print("expected a DTensor, actual", torch.func.functional_call(module, named, (batch,))[0])
