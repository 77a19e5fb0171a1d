"""The entries of the database that cannot be programs, with the reasons, and what each reason means.

`write.py` excludes more entries where no sample works, with the reason that it found.
"""

import re
from collections.abc import Mapping

from difftest.cases.case import Regime

RANDOM = "random: the result depends on the device's generator"
UNWRITTEN = "the result is memory that nothing has written"
SPARSE = "sparse or nested: the workers lay out dense tensors alone"
CUDA = "needs CUDA"
NO_TENSOR = "takes no tensor, so that nothing can be placed"
COMPLEX = "takes complex numbers alone, which placements and noise floors do not know"
INTERNAL = "an internal kernel of one device, which no program calls"
ON_HOST = "makes its result on the host, unless the call names a device"
UNSAFE = "reads memory outside of its operands, since its samples ask for no checks"
NARROW = "takes no float64, in which the oracle computes"
RESIZES = "resizes a tensor's memory, which placed tensors do not have"

COUNTING = re.compile("polygamma|zeta")
"""Functions that add 1 to a negative argument until it is 9."""

FAR_BELOW_ZERO: tuple[Regime, ...] = ("extreme", "offset")
"""The regimes with numbers for which that takes seconds or hours."""

EXCLUDED: Mapping[str, tuple[str, ...]] = {
    RANDOM: (
        "bernoulli",
        "cauchy",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "nn.functional.alpha_dropout",
        "nn.functional.dropout",
        "nn.functional.dropout2d",
        "nn.functional.dropout3d",
        "nn.functional.feature_alpha_dropout.with_train",
        "nn.functional.fractional_max_pool2d",
        "nn.functional.fractional_max_pool3d",
        "nn.functional.rrelu",
        "normal",
        "normal.in_place",
        "normal.number_mean",
        "pca_lowrank",
        "rand_like",
        "randint",
        "randint_like",
        "randn",
        "randn_like",
        "svd_lowrank",
        "uniform",
    ),
    UNWRITTEN: (
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    ),
    SPARSE: ("sparse.mm.reduce", "sparse.sampled_addmm", "to_sparse"),
    CUDA: (
        "jiterator_2inputs_2outputs",
        "jiterator_4inputs_with_extra_args",
        "jiterator_binary",
        "jiterator_binary_return_by_ref",
        "jiterator_unary",
        "torch._scaled_mm",
        "torch.ops.aten._efficient_attention_forward",
        "torch.ops.aten._flash_attention_forward",
    ),
    NO_TENSOR: (
        "arange",
        "eye",
        "full",
        "linspace",
        "logspace",
        "ones",
        "scalar_tensor",
        "signal.windows.bartlett",
        "signal.windows.blackman",
        "signal.windows.cosine",
        "signal.windows.exponential",
        "signal.windows.gaussian",
        "signal.windows.general_cosine",
        "signal.windows.general_hamming",
        "signal.windows.hamming",
        "signal.windows.hann",
        "signal.windows.kaiser",
        "signal.windows.nuttall",
        "tril_indices",
        "triu_indices",
        "zeros",
    ),
    COMPLEX: ("imag", "view_as_real", "nn.functional.silu.complex", "istft", "chalf"),
    RESIZES: ("resize_", "resize_as_"),
    ON_HOST: ("linspace.tensor_overload", "logspace.tensor_overload"),
    UNSAFE: ("_segment_reduce.lengths", "_segment_reduce.offsets"),
    NARROW: (
        "aten._amp_foreach_non_finite_check_and_unscale_",
        "aten._amp_update_scale_",
        "aten._grouped_mm",
        "aten._scaled_mm",
    ),
    INTERNAL: ("_batch_norm_with_update", "_native_batch_norm_legit"),
}


def reason_for(name: str) -> str:
    """Why the entry called `name` is excluded; empty if it is not."""
    return next((reason for reason, names in EXCLUDED.items() if name in names), "")
