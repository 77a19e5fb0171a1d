"""With deterministic algorithms, calls that write by indices fail on CUDA for 0-dim tensors.

torch 2.11.0 and 2.15.0, on an H100; it needs a GPU. Each call works on a CPU, and without such algorithms.
A name runs one alone. Exits 0 when all faults are there.
"""

import sys

import torch

CALLS = {
    "index_add": lambda x, index: x.index_add(0, index.reshape(1), x),
    "index_copy": lambda x, index: x.index_copy(0, index.reshape(1), x),
    "scatter": lambda x, index: x.scatter(0, index, x),
    "scatter_reduce": lambda x, index: x.scatter_reduce(0, index, x, "sum"),
    "gather": lambda x, index: x.gather(0, index),
    "max": lambda x, _: x.max(0).values,
    "sort": lambda x, _: x.sort(0).values,
    "index_select": lambda x, index: x.index_select(0, index),
}


def gradient(name: str) -> float:
    x = torch.tensor(2.0, device="cuda", requires_grad=True)
    CALLS[name](x, torch.tensor(0, device="cuda")).backward()
    return x.grad.item()


if not torch.cuda.is_available():
    sys.exit("needs a GPU")
missing = []
for name in sys.argv[1:] or CALLS:
    torch.use_deterministic_algorithms(mode=False)
    expected = gradient(name)
    torch.use_deterministic_algorithms(mode=True)
    try:
        actual = gradient(name)
    except IndexError as error:
        actual = f"IndexError: {error}"
    print(f"{name}: expected a gradient of {expected}, actual {actual}")
    missing += [name] if actual == expected else []
sys.exit(f"not there: {missing}" if missing else 0)
