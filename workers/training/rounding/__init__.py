"""How each operator of torch rounds: the table `operators.toml`, and what a class means to the noise floor.

| class | the results are perturbed by | the inputs are perturbed |
|---|---|---|
| `exact` | nothing | no |
| `random` | nothing: no two frameworks draw the same numbers | no |
| `once` | one unit roundoff | no |
| `approximated` | one and a half in programs, three in those of float64, four in models | no |
| `sums` | one | by one, which models partial sums |
| `intermediate` | as approximated | by one |
| `special` | as approximated | by one of float32, except outside of the function's domain |
| `ill_conditioned` | as approximated | by four of the matrix's size, unless it is not defined there |
| `iterative` | as approximated | by twelve of the matrix's size, unless it is not defined there |
| `unknown`, `composite`, `bounded` | as approximated | by one, unless it is not defined there |
| `wide` | one of float32 in models; as intermediate in programs | no |

Half types have no special functions of their own: kernels compute them in float32. Sums are another matter,
because ranks exchange partial sums in the dtype itself.

Linear algebra is backward stable by norm: its results are those of a matrix that is some roundoffs of the
matrix's size away, in every element (N. Higham, Accuracy and Stability of Numerical Algorithms, 2002).
Eigenvalues and singular values take iterations, each of which rounds.

An operator that is not in the table, or that torch should have taken apart (`composite`), has its inputs
perturbed and its results approximated. That is safe because it is the most that any single rounding inside
would do: the floor may be too high, so that a fault stays hidden, but nobody is accused.
`tests/benchmarks/floors/calibration.py` compares the floors with real errors.
"""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

Overload: TypeAlias = Any
"""An operator's overload, which has no public type in torch."""

TABLE = Path(__file__).parent / "operators.toml"

ELEMENTARY_ROUNDOFFS = 4.0
"""The rounding of approximated functions in models, in unit roundoffs: two units in the last place.

The CUDA C++ Programming Guide's table of single-precision functions gives these for exp, tanh and erf.
"""

PROGRAM_ROUNDOFFS = 1.5
"""Their rounding in programs: torch's and XLA's are right to about one unit in the last place.

With four, most floors are over three times the real error (`tests/benchmarks/floors/calibration.py`).
"""

FLOAT64_ROUNDOFFS = 3.0
"""The same in float64, where XLA's functions are right to 3.5 units in the last place, as `tanh`'s are."""

MATRIX_ROUNDOFFS = 4.0
"""By how many roundoffs of its size a matrix is perturbed that is factorized or solved."""

ITERATION_ROUNDOFFS = 12.0
"""The same where eigenvalues or singular values are computed.

LAPACK's are up to 6 times, and XLA's eigh is 7 times as far off as 4 roundoffs would make them.
"""


@dataclass(frozen=True, slots=True)
class Rounding:
    """What a class of operators does to numbers.

    `roundoffs`: how far results are rounded, in unit roundoffs; 0 for results that are exact. `inputs`:
    whether inputs are perturbed too. `guarded`: whether perturbed inputs may be outside the domain. `wide`:
    whether results are float32 whatever the dtype; `wide_inputs`: whether inputs are perturbed as float32;
    `matrices`: by how many roundoffs inputs are perturbed in units of their matrix's size, if not by one in
    units of their own.
    """

    roundoffs: float = 0.0
    inputs: bool = False
    guarded: bool = False
    wide: bool = False
    wide_inputs: bool = False
    matrices: float = 0.0


INTERMEDIATE = Rounding(ELEMENTARY_ROUNDOFFS, inputs=True)
UNKNOWN = Rounding(ELEMENTARY_ROUNDOFFS, inputs=True, guarded=True)

CLASSES = {
    "exact": Rounding(),
    "random": Rounding(),
    "once": Rounding(1.0),
    "approximated": Rounding(ELEMENTARY_ROUNDOFFS),
    "sums": Rounding(1.0, inputs=True),
    "intermediate": INTERMEDIATE,
    "bounded": UNKNOWN,
    "special": Rounding(ELEMENTARY_ROUNDOFFS, inputs=True, guarded=True, wide_inputs=True),
    "ill_conditioned": replace(UNKNOWN, matrices=MATRIX_ROUNDOFFS),
    "iterative": replace(UNKNOWN, matrices=ITERATION_ROUNDOFFS),
    "wide": Rounding(1.0, wide=True),
    "composite": UNKNOWN,
    "unknown": UNKNOWN,
}


UNANNOUNCED = {"native_batch_norm": frozenset({3, 4})}
"""The arguments that an operator writes to although its schema does not say so: the running statistics."""


@cache
def classes() -> dict[str, str]:
    """The class of every operator in the table, by its name without `aten::`."""
    table = tomllib.loads(TABLE.read_text())
    return {name: kind for kind, names in table.items() for name in names.split()}


@cache
def operator_name(func: Overload) -> str:
    """The operator's name without `aten::` and without its overload."""
    return str(func._schema.name).removeprefix("aten::")  # noqa: SLF001  no public name


@cache
def rounding(func: Overload) -> Rounding:
    """How an operator rounds; views never do."""
    if func.is_view:
        return CLASSES["exact"]
    return CLASSES[classes().get(operator_name(func), "unknown")]


@cache
def rounding_in_program(func: Overload, *, float64: bool = False) -> Rounding:
    """How an operator of a program rounds, of a program in float64 or in any other dtype."""
    kind, most = rounding(func), FLOAT64_ROUNDOFFS if float64 else PROGRAM_ROUNDOFFS
    return replace(INTERMEDIATE if kind.wide else kind, roundoffs=min(kind.roundoffs, most))


@cache
def written(func: Overload) -> frozenset[int]:
    """The positions of the arguments that an operator writes to."""
    positions = enumerate(func._schema.arguments)  # noqa: SLF001
    announced = {at for at, one in positions if one.alias_info is not None and one.alias_info.is_write}
    return frozenset(announced) | UNANNOUNCED.get(operator_name(func), frozenset())
