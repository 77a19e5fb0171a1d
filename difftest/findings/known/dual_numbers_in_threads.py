"""Dual numbers in two threads at once fail, as the level that they are of is the process's.

torch 2.9.0 and 2.15.0. Replicas of torch_xla that share a process are threads.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.autograd import forward_ad

both = threading.Barrier(2, timeout=10)


def derivative(_: int) -> torch.Tensor:
    inputs = torch.ones(2)
    both.wait()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(inputs, inputs) ** 2
        both.wait()
        return forward_ad.unpack_dual(dual).tangent


with ThreadPoolExecutor(2) as threads:
    for result in threads.map(derivative, range(2)):
        print(f"expected [2.0, 2.0], actual {result.tolist()}")
