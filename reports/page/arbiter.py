"""The arbiter: a side's error beside the other side's on the same tensor, both to float64.

The noise floor says how far rounding may lead; the other side, how far it led somebody who computed the same. The rule and its factors
are those of `torch._dynamo.utils.same`, without its allowances for small tensors and for an absolute tolerance.
"""

from collections.abc import Iterable, Mapping

import pandas as pd

from difftest.records.finding import Finding
from reports import cells

FACTOR = 2.0
HALF_FACTOR = 3.0
HALF = frozenset({"float16", "bfloat16"})

_ERRORS = ["error", "other_error", "dtype"]
_MEASURED = ["fingerprint", "case", "backend", "tensor_stage", "tensor"]
"""What leads from a finding to its measurement: the diverging tensor's, in the first run of the finding's own case that showed it."""


def words(error: float, other_error: float | None, dtype: str) -> str:
    """Both errors, and whether the first is within the factor of the other side's or beyond; empty where no other side was measured."""
    if other_error is None:
        return ""
    factor = HALF_FACTOR if dtype in HALF else FACTOR
    verdict = "within" if error <= factor * other_error else "beyond"
    return f"root mean square error {cells.shown(error)}, of the other side {cells.shown(other_error)}: {verdict} a factor of {factor:g}"


def arbitrated(t: pd.DataFrame, findings: Iterable[Finding]) -> Mapping[str, str]:
    """What the arbiter says of the findings, by their fingerprints, from the long table; those that it says nothing of are left out."""
    measured = t[t["fingerprint"].notna() & t["other_error"].notna()].drop_duplicates(_MEASURED)
    keys, errors = (measured[columns].astype(object).to_numpy().tolist() for columns in (_MEASURED, _ERRORS))
    told = {tuple(key): words(*numbers) for key, numbers in zip(keys, errors, strict=True)}
    sought = {
        f.fingerprint: (
            f.fingerprint,
            f.case,
            f.divergence.backend,
            str(f.divergence.stage),
            f.divergence.tensor,
        )
        for f in findings
    }
    return {fingerprint: told[key] for fingerprint, key in sought.items() if key in told}
