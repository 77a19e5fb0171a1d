"""Flash attention on torch's side: `scaled_dot_product_attention` with one kernel allowed.

The run's environment names the kernel. The kernel is the one that the case names, where the device has it and
it takes the tensors; else the first of flash, memory-efficient and math that does.

* On the CPU there are flash, with or without a mask, and math. Only math gives a mask its gradient (a learned
  bias) and has rules for DTensors.
* On other devices, as TorchTPU's, there is math.
* On CUDA torch itself says what a kernel takes: flash takes half types and no mask, cuDNN takes half types,
  memory-efficient takes most. There too DTensor has rules for a mask only in math
  (`known/masked_attention_of_dtensors.py`).
* On CUDA float32 goes to math: since sm80 the memory-efficient kernel makes a product of float32 from three
  of TF32, whatever torch's switches say (`OpMultiplyAddFastF32` in torch's
  mem_eff_attention/gemm_kernel_utils.h), and the measured rounding noise of float32 does not include that.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from difftest.cases.case import Case

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.attention import SDPBackend

    from workers.training.operators import Operators, Scores


def operators(case: Case, environment: dict[str, str]) -> "Operators":
    """The operators of a backend of torch's side; they write the kernels they used into `environment`."""
    from workers.training.operators import Operators

    return Operators(attend=KernelAttention(case, environment), grouped=True)


@dataclass(frozen=True, slots=True)
class KernelAttention:
    """Attends by the first wanted kernel that takes the tensors, and records its name."""

    case: Case
    environment: dict[str, str]

    def __call__(self, query: "Tensor", key: "Tensor", value: "Tensor", scores: "Scores") -> "Tensor":
        """`workers.training.operators.attend` by the first wanted kernel that takes the tensors."""
        return self.masked(query, key, value, scores, allowed(query, key, scores))

    def masked(
        self, query: "Tensor", key: "Tensor", value: "Tensor", scores: "Scores", mask: "Tensor | None"
    ) -> "Tensor":
        """Attention with a mask in the place of what `scores` hides; without one it may be causal."""
        from torch.backends import cuda
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        causal, grouped = scores.causal and mask is None, query.shape[1] != key.shape[1]
        operands: Any = cuda.SDPAParams(query, key, value, mask, 0.0, causal, grouped)
        chosen = next(
            kernel
            for name in self._wanted(operands)
            if takes(kernel := SDPBackend.__members__[name], operands)
        )
        self.environment["sdpa"] = " ".join(
            sorted({*self.environment.get("sdpa", "").split(), chosen.name.lower()})
        )
        with sdpa_kernel(chosen):
            return scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=causal, scale=scores.scale, enable_gqa=grouped
            )

    def _wanted(self, operands: Any) -> tuple[str, ...]:  # noqa: ANN401
        """The kernels' names in the order of preference.

        Where DTensors have a mask the second choice is math, because DTensor has no rule for others.
        """
        from torch.distributed.tensor import DTensor

        named, *others = self.case.sdpa_kernels
        masked = operands.attn_mask is not None and isinstance(operands.query, DTensor)
        return (named, *others[-1:]) if masked else (named, *others)


def allowed(query: "Tensor", key: "Tensor", scores: "Scores") -> "Tensor | None":
    """None where the kernel's own causal mask suffices, else the visible keys, or addends of the scores."""
    from workers.training.operators import forbidden

    if scores.segments is None and scores.ab is None:
        return None
    hidden = forbidden(scores, query, key)
    if scores.ab is None:
        return None if hidden is None else hidden.logical_not()
    return scores.ab if hidden is None else scores.ab.masked_fill(hidden, float("-inf"))


def takes(kernel: "SDPBackend", operands: Any) -> bool:  # noqa: ANN401  torch declares no type for them
    """Whether the device has `kernel`, and the kernel takes `operands`, torch's `SDPAParams`."""
    import torch
    from torch.backends import cuda
    from torch.distributed.tensor import DTensor
    from torch.nn.attention import SDPBackend

    if kernel is SDPBackend.MATH:
        return True
    if operands.query.device.type == "cpu":
        learned = operands.attn_mask is not None and operands.attn_mask.requires_grad
        return (
            kernel is SDPBackend.FLASH_ATTENTION and not learned and not isinstance(operands.query, DTensor)
        )
    if operands.query.device.type != "cuda":  # asking for cuDNN looks for a GPU, whatever the device
        return False
    if kernel is SDPBackend.EFFICIENT_ATTENTION and operands.query.dtype is torch.float32:
        return False
    can = {
        SDPBackend.FLASH_ATTENTION: cuda.can_use_flash_attention,
        SDPBackend.EFFICIENT_ATTENTION: cuda.can_use_efficient_attention,
        SDPBackend.CUDNN_ATTENTION: cuda.can_use_cudnn_attention,
    }
    return can[kernel](operands)
