"""The memory-efficient kernel's gradients of query and key are wrong in half types, in silence, where the saved
output comes back in another layout.

torch 2.11.0, on an H100 (three runs: a relative difference of 0.79 each); it needs a GPU. The kernel reads the output
with a stride of heads times head dim from position to position (`o_strideM` in mem_eff_attention/kernel_backward.h),
whatever the tensor's is, and past its end. One head has the same stride in both layouts, and is right.
`save_on_cpu(pin_memory=True)` brings tensors back contiguous. In float32 torch reads the output itself.
"""

import sys
from contextlib import nullcontext

import torch
from torch.autograd.graph import save_on_cpu
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

if not torch.cuda.is_available():
    sys.exit("needs a GPU")
torch.manual_seed(0)
query, key, value, weights = torch.randn(4, 2, 4, 64, 32).to("cuda", torch.bfloat16)


def gradient(saving):
    leaf = query.clone().requires_grad_()
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), saving:
        output = scaled_dot_product_attention(leaf, key, value, is_causal=True)
    (output * weights).sum().backward()
    return leaf.grad.float()


expected, actual = gradient(nullcontext()), gradient(save_on_cpu(pin_memory=True))
off = ((actual - expected).norm() / expected.norm()).item()
print("expected a relative difference below 0.01, actual", off)
sys.exit(off < 0.01)
