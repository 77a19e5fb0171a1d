"""What torch_xla gets wrong of views on one device; names select.

torch_xla 2.9.0. Exits 0 when the faults are there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()
SIZE, STRIDE, OFFSET = (2, 2), (4, 1), 1


def view_in_inference_mode(device: object) -> object:
    """A view of a tensor that was made outside of the mode."""
    tensor = torch.ones(2, 2, device=device)
    with torch.inference_mode():
        return tensor.narrow(0, 0, 1).tolist()


def as_strided(device: object) -> object:
    """What is written into rows of two, whose memory is four apart: in place, by scatter, by the gradient."""
    first, second = (torch.zeros(2, 4, device=device) for _ in range(2))
    first.as_strided(SIZE, STRIDE, OFFSET).fill_(1)
    scattered = second.as_strided_scatter(torch.ones(SIZE, device=device), SIZE, STRIDE, OFFSET)
    second.requires_grad_().as_strided(SIZE, STRIDE, OFFSET).sum().backward()
    return first.tolist(), scattered.tolist(), second.grad.tolist()


def overlapping_out(device: object) -> object:
    """A result that is written to elements which share memory; torch rejects it."""
    out = torch.zeros(1, device=device).expand(3)
    try:
        return torch.neg(torch.ones(3, device=device), out=out).tolist()
    except RuntimeError as error:
        return str(error).splitlines()[0]


FAULTS = {
    "as_strided": as_strided,
    "overlapping_out": overlapping_out,
    "view_in_inference_mode": view_in_inference_mode,
}
missing = []
for name in sys.argv[1:] or FAULTS:
    try:
        actual = FAULTS[name](XLA)
    except RuntimeError as error:
        actual = str(error).splitlines()[0]
    print(f"{name}: expected {FAULTS[name]('cpu')}, actual {actual}")
    missing += [name] if actual == FAULTS[name]("cpu") else []
sys.exit(f"not there: {missing}" if missing else 0)
