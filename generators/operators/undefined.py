"""What torch's documentation leaves open of an operator's result, in its words.

A difference in such a result is reported separately.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from difftest.cases.case import DType, Regime
from difftest.cases.layers.module import function_called
from difftest.cases.layers.operator import Operator

When: TypeAlias = Literal[
    "always",
    "ties",
    "duplicates",
    "extreme",
    "far",
    "drawn",
    "evaluating",
    "order zero",
    "singular",
    "nonfinite",
    "subnormal",
    "unsorted",
]
"""When a result is open.

`drawn`: where an operand has drawn values, or is an earlier result, which may have any. `evaluating`: without
training. `unsorted`: drawn boundaries ascend, but not in the order of a `sorter`, and NaN has no place.
"""

TIED: frozenset[Regime] = frozenset(
    (
        "ties",
        "zeros",
        "kinks",
        "boundary",
        "signed_zeros",
        "nonfinite",
        "extreme",
        "denormal",
        "tiny",
        "offset",
    )
)
"""The regimes in which two values may be equal, some of them only after rounding."""

SINGULAR: frozenset[Regime] = frozenset(("zeros", "signed_zeros"))
"""The regimes in which the diagonal of a matrix may hold a zero."""

FAR: frozenset[Regime] = frozenset(("nonfinite", "extreme", "large", "offset"))
"""The regimes with values that an integer type may not hold."""

CONVERTED = "converting a value that the integer type cannot hold is undefined, as it is in C++"
SIGNS = "eigenvectors and singular vectors are unique only up to their signs and, in a subspace, their order"
MEDIANS = "indices does not necessarily contain the first occurrence of each median value"
OF_EQUALS = "of several equal values, which one gets the gradient is not documented"
FLUSHED = "whether a subnormal number counts as zero depends on the device, and on set_flush_denormal"
PIVOTS = "the permutation is not unique where pivots are equal in magnitude"
NOT_POSITIVE = "what is not positive definite gets a positive info, and its factor is not documented"
SINGULAR_OR_NOT = "whether the determinant of a singular matrix is 0 or nearly so is a matter of rounding"
SAVED = "what is saved without training is not documented: means on CUDA, nothing on a CPU"
ILL_CONDITIONED = "of an ill-conditioned matrix, results may vary on different devices"
COUNTED = (
    "whether NaN counts as a difference is not documented: torch.dist counts it, torch.cdist makes it NaN"
)
SOLVERS = tuple(
    f"linalg.{name}" for name in ("solve", "solve_ex", "lstsq", "lu_solve", "ldl_solve", "tensorsolve")
)
INVERSES = ("inverse", "pinverse", *(f"linalg.{name}" for name in ("inv", "inv_ex", "pinv", "tensorinv")))
UNSORTED = "the boundaries must be an increasing sequence, or the return value is undefined"
MAXIMA = "of equal maxima in a window, which index is returned is not documented"
DUPLICATES = (
    "with duplicate indices the behavior is nondeterministic: one of the values is picked arbitrarily"
)
REPEATED = "max_unpool may behave nondeterministically when the indices have repeat values"
UNPOOLED = tuple(f"nn.functional.max_unpool{dims}d" for dims in (1, 2, 3))
PADDED = (
    "whether the zeros of a padding, which gradients and transposed convolutions have too, are multiplied by "
    "an infinite weight is not documented"
)
SUBTRACTED = (
    "the formula of a norm's gradient is not documented: beside an infinite weight it subtracts infinities, "
    "or adds them up first"
)
MEANS = "how the mean of infinite numbers is computed, infinity or NaN, is not documented"
CONVOLUTIONS = tuple(f"nn.functional.conv{kind}{dims}d" for kind in ("", "_transpose") for dims in (1, 2, 3))
UNDEFINED: Mapping[str, tuple[When, str]] = {
    **dict.fromkeys(("char", "short", "int", "long"), ("far", CONVERTED)),
    "byte": ("always", CONVERTED),
    **dict.fromkeys(("aminmax", "quantile", "nanquantile"), ("ties", OF_EQUALS)),
    **dict.fromkeys(("argwhere", "count_nonzero", "nonzero", "nonzero_static"), ("subnormal", FLUSHED)),
    "argsort": ("ties", "the relative order of equivalent elements is preserved only if stable is True"),
    "sort": ("ties", "the order of equivalent elements is preserved only if stable is True"),
    "msort": ("ties", "the relative order of equivalent elements is not guaranteed to be stable"),
    "topk": ("ties", "the indices of tied elements are not guaranteed to be stable and may vary"),
    "kthvalue": ("ties", "if there are several valid k-th values, the indices may be of any of them"),
    **dict.fromkeys(("median", "nanmedian"), ("ties", MEDIANS)),
    **dict.fromkeys(("slogdet", "linalg.slogdet"), ("ties", SINGULAR_OR_NOT)),
    **dict.fromkeys(("bucketize", "searchsorted"), ("unsorted", UNSORTED)),
    "mode": ("ties", "the index location of each mode value found may be that of any occurrence"),
    "cummax": ("ties", "of equal maxima, which index is the location is not documented"),
    "cummin": ("ties", "of equal minima, which index is the location is not documented"),
    "nn.functional.max_pool1d": ("ties", MAXIMA),
    "nn.functional.max_pool2d": ("ties", MAXIMA),
    "nn.functional.max_pool3d": ("ties", MAXIMA),
    "nn.functional.adaptive_max_pool1d": ("ties", MAXIMA),
    "nn.functional.adaptive_max_pool2d": ("ties", MAXIMA),
    "nn.functional.adaptive_max_pool3d": ("ties", MAXIMA),
    **dict.fromkeys(CONVOLUTIONS, ("nonfinite", PADDED)),
    "nn.functional.layer_norm": ("nonfinite", SUBTRACTED),
    "native_layer_norm": ("nonfinite", MEANS),
    "index_put": (
        "duplicates",
        "if accumulate is False, the behavior is undefined if indices contain duplicates",
    ),
    "put": ("duplicates", "if accumulate is False, the behavior is undefined if index contains duplicates"),
    "index_copy": ("duplicates", "if index contains duplicate entries, the result is nondeterministic"),
    "scatter": ("duplicates", DUPLICATES),
    **dict.fromkeys(UNPOOLED, ("duplicates", REPEATED)),
    **dict.fromkeys(("svd", "linalg.svd", "linalg.eig", "linalg.eigh"), ("always", SIGNS)),
    "linalg.eigvals": ("always", "the returned eigenvalues are not guaranteed to be in any specific order"),
    **dict.fromkeys(
        ("linalg.qr", "qr"),
        ("always", "the decomposition is unique only up to the sign of the diagonal of R"),
    ),
    **dict.fromkeys(
        (*SOLVERS, *INVERSES, "lu_solve", "cholesky_inverse", "cholesky_solve"), ("extreme", ILL_CONDITIONED)
    ),
    "cdist": ("order zero", COUNTED),
    "linalg.cholesky_ex": ("drawn", NOT_POSITIVE),
    "native_batch_norm": ("evaluating", SAVED),
    "triangular_solve": ("singular", "if the diagonal of A contains zeros, the result may contain NaNs"),
    "geqrf": ("always", "the representation of Q by reflectors is LAPACK's, and not unique"),
    **dict.fromkeys(("linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex", "lu"), ("ties", PIVOTS)),
    **dict.fromkeys(
        ("linalg.ldl_factor", "linalg.ldl_factor_ex"),
        ("always", "the LDL decomposition is not unique; its pivots are LAPACK's"),
    ),
}
"""When the result is left open, and what the documentation says, by the entry without its variant."""

SMALL_TYPES = frozenset(("bfloat16", "float16"))


def undefined(operator: Operator, *, dtype: DType, regime: Regime) -> str:
    """What is left open of the result with these values; empty if nothing."""
    gap = documented(operator.operator)
    if gap is None:
        return ""
    ties = (
        regime in TIED
        or dtype in SMALL_TYPES
        or any(
            operand.dtype not in {"float", "float32", "float64"} or operand.memory == "expanded"
            for operand in operator.operands.values()
        )
    )
    applies = {
        "always": True,
        "ties": ties,
        "duplicates": _repeats(operator),
        "extreme": regime == "extreme",
        "far": regime in FAR,
        "order zero": regime == "nonfinite" and 0.0 in operator.arguments,
        "singular": regime in SINGULAR,
        "nonfinite": regime == "nonfinite",
        "subnormal": regime == "denormal",
        "unsorted": regime == "nonfinite" or "sorter" in operator.operands,
        "drawn": any("." in name for name in operator.references())
        or not all(operand.values for operand in operator.operands.values()),
        "evaluating": any(value is False for value in operator.arguments),
    }
    when, words = gap
    return words if applies[when] else ""


def documented(name: str) -> tuple[When, str] | None:
    """The gap of the entry called `name`, which may end in a variant's name; None where there is none.

    That of a module is that of the function that it calls.
    """
    name = function_called(name)
    return UNDEFINED.get(name) or UNDEFINED.get(name.rpartition(".")[0])


def _repeats(operator: Operator) -> bool:
    """Whether an index occurs twice, or may do."""
    indices = [
        operand.values
        for operand in operator.operands.values()
        if operand.dtype in {"int32", "int64"} and operand.values
    ]
    return any(len(set(values)) < len(values) for values in indices)
