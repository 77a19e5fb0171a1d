"""Calls of DTensors that fail, each in its own words; names select.

`int16`: torch 2.9.0 and 2.15.0, over gloo, whose scatter lacks that type. `inner`: both, in inference mode.
`valid_padding`: torch 2.9.0. Exits 0 if all selected faults are there.
"""

import sys
import tempfile

import torch
from torch import distributed, multiprocessing
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def int16(mesh: DeviceMesh) -> object:
    return distribute_tensor(torch.arange(4, dtype=torch.int16), mesh, [Shard(0)])


def valid_padding(mesh: DeviceMesh) -> object:
    images, kernel, bias = (torch.ones(s) for s in ((1, 2, 4, 4), (1, 2, 2, 2), (1,)))
    place = [distribute_tensor(one, mesh, [Replicate()]) for one in (images, kernel, bias)]
    return torch.nn.functional.conv2d(*place, padding="valid")


def inner(mesh: DeviceMesh) -> object:
    one = distribute_tensor(torch.ones(4), mesh, [Replicate()])
    with torch.inference_mode():
        return torch.inner(one, one)


FAULTS = {
    "int16": (int16, "Invalid scalar type"),
    "valid_padding": (valid_padding, "list index out of range"),
    "inner": (inner, "list index out of range"),
}


def main(rank: int, rendezvous: str, names: list[str]) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    mesh, missing = init_device_mesh("cpu", (2,)), []
    for name in names:
        call, fault = FAULTS[name]
        try:
            actual = str(call(mesh))
        except RuntimeError as error:
            actual = f"RuntimeError: {error} {error.__cause__}"
        print(f"{name}: expected a DTensor, actual {actual[-200:]!r}")
        missing += [] if fault in actual else [name]
    sys.exit(f"not there: {missing}" if missing else 0)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(), sys.argv[1:] or list(FAULTS)), 2)
