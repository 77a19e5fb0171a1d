"""Modules of torch for which DTensor has no rule, whatever the placements; a name runs one alone.

torch 2.9.0 on the CPU. The process group is torch's fake one. Exits 0 when all faults are there.
"""

import sys

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
images = distribute_tensor(torch.rand(4, 2, 6, 6), mesh, [Shard(0)])
rows = distribute_tensor(torch.rand(4, 6), mesh, [Shard(0)])
whole = distribute_tensor(torch.rand(4, 6), mesh, [Replicate()])
ids = distribute_tensor(torch.arange(4), mesh, [Replicate()])


def placed(module: nn.Module) -> nn.Module:
    return distribute_module(module, mesh)


FAULTS = {
    "attention": (
        lambda: functional.scaled_dot_product_attention(images, images, images),
        "_scaled_dot_product_flash_attention_for_cpu",
    ),
    "avg_pool2d": (lambda: functional.avg_pool2d(images, 2), "aten.avg_pool2d.default"),
    "batch_norm": (lambda: placed(nn.BatchNorm1d(6))(rows), "aten.native_batch_norm.default"),
    "embedding_bag": (lambda: placed(nn.EmbeddingBag(8, 6))(ids, ids), "aten._embedding_bag.default"),
    "group_norm": (lambda: placed(nn.GroupNorm(2, 6))(rows), "aten.native_group_norm.default"),
    "gru": (lambda: placed(nn.GRU(6, 3, batch_first=True))(rows.unsqueeze(1)), "aten.unbind.int"),
    "index_add": (lambda: whole.index_add(0, ids, whole), "aten.index_add.default"),
    "label_smoothing": (
        lambda: functional.cross_entropy(rows, ids, label_smoothing=0.5),
        "aten.masked_fill_.Scalar",
    ),
    "lstm": (lambda: placed(nn.LSTM(6, 3, batch_first=True))(rows.unsqueeze(1)), "aten.mkldnn_rnn_layer"),
    "max_pool2d": (lambda: functional.max_pool2d(images, 2), "aten.max_pool2d_with_indices.default"),
    "softplus": (lambda: functional.softplus(rows), "aten.softplus.default"),
    "transpose_in_place": (lambda: whole.clone().transpose_(0, 1), "aten.transpose_.default"),
    "weight_norm": (lambda: placed(weight_norm(nn.Linear(6, 3)))(rows), "aten._weight_norm_interface"),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    call, operator = FAULTS[name]
    try:
        with implicit_replication():
            print(f"{name}: expected a result, actual {call()}")
        missing.append(name)
    except (NotImplementedError, RuntimeError) as error:
        print(f"{name}: expected a result, actual {type(error).__name__}: {str(error)[:160]!r}")
        missing += [] if operator in str(error) else [name]
sys.exit(f"not there: {missing}" if missing else 0)
