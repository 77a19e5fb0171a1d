"""Functions and gradients for which torch makes a plain tensor that DTensor refuses; a name runs one alone.

torch 2.9.0. Nothing is sharded; the process group is torch's fake one. Exits 0 when all faults are there.
"""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_module, distribute_tensor
from torch.nn.functional import scaled_dot_product_attention as attention
from torch.testing._internal.distributed.fake_pg import FakeStore

distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))


def place(tensor: torch.Tensor) -> DTensor:
    return distribute_tensor(tensor, mesh, [Replicate()]).requires_grad_(tensor.is_floating_point())


def of(*shape: int) -> DTensor:
    return place(torch.rand(shape))


def gradient(result: torch.Tensor, tensor: DTensor | None = None) -> str:
    result.sum().backward()
    return type(tensor.grad).__name__ if tensor is not None else ""


MIXED, ROW = "got mixed torch.Tensor and DTensor", torch.tensor([0, 1])
WITH_ZEROS = torch.nn.MultiheadAttention(2, 1, add_zero_attn=True)
BLOCK = torch.nn.TransformerEncoderLayer(2, 1, 2)
FAULTS = {
    "list_as_index": lambda: of(4, 4)[[1, 2]],
    "combinations": lambda: torch.combinations(of(3)),
    "matrix_power": lambda: torch.linalg.matrix_power(of(4, 4), 0),
    "quantile": lambda: torch.quantile(of(4, 4), 0.5, dim=0),
    "unravel_index": lambda: torch.unravel_index(place(ROW), (4, 5)),
    "causal_attention": lambda: attention(*[of(4, 3, 8)] * 3, None, 0.5, is_causal=True),
    "masked_var": lambda: torch.masked.var(of(4, 4), dim=1),
    "out_of_a_composite": lambda: torch.msort(of(4, 4).detach(), out=of(4, 4).detach()),
    "index_put_backward": lambda: gradient(torch.index_put(of(4, 4), (place(ROW),), of(2, 4))),
    "slice_scatter_backward": lambda: gradient(torch.slice_scatter(of(4, 4), of(2, 4), 0, 0, 2)),
    "sgn_backward": lambda: gradient(torch.sgn(x := of(4)), x),
    "zero_attention": lambda: distribute_module(WITH_ZEROS, mesh)(*[of(3, 2)] * 3),
    "causal_mask": lambda: torch.nn.TransformerEncoder(BLOCK, 1)(of(3, 2), of(3, 3)),
    "repeat_backward": lambda: gradient((x := of(4)).repeat(0), x),
}
missing = []
for name in sys.argv[1:] or FAULTS:
    try:
        actual = str(FAULTS[name]())
    except RuntimeError as error:
        actual = str(error)
    print(f"{name}: expected a DTensor, actual {actual[:160]!r}")
    missing += [] if MIXED in actual or actual == "Tensor" else [name]
sys.exit(f"not there: {missing}" if missing else 0)
