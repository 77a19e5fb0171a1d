"""The arbiter: a side's error beside the other side's on the same tensor, both against the float64 reference.

The rounding noise says how large an error rounding may cause; the other side shows how large an error it did
cause in the same computation. The rule and its factors are those of `torch._dynamo.utils.same`, without its
allowances for small tensors and for an absolute tolerance.
"""

from collections.abc import Iterable, Mapping

from difftest.records.finding import Finding
from reports import cells
from reports.frame import Table

FACTOR = 2.0
HALF_FACTOR = 3.0
HALF = frozenset({"float16", "bfloat16"})

_ERRORS = ["error", "other_error", "dtype"]
_MEASURED = ["fingerprint", "case", "backend", "tensor_stage", "tensor"]
"""The columns that identify a finding's measurement: the diverging tensor in the first run that showed it."""


def words(error: float, other_error: float | None, dtype: str) -> str:
    """Both errors, and whether the first is within a factor of the other side's.

    Empty if that was not measured.
    """
    if other_error is None:
        return ""
    factor = HALF_FACTOR if dtype in HALF else FACTOR
    verdict = "within" if error <= factor * other_error else "beyond"
    errors = f"root mean square error {cells.shown(error)}, of the other side {cells.shown(other_error)}"
    return f"{errors}: {verdict} a factor of {factor:g}"


def arbitrated(t: Table, findings: Iterable[Finding]) -> Mapping[str, str]:
    """The arbiter's words by fingerprint, from the long table `t`.

    Findings without a comparison are left out.
    """
    findings = tuple(findings)
    own = t.runs["fingerprint"].notna() & t.runs["case"].isin([f.case for f in findings])
    by_key = dict[tuple[str, ...], str]()
    for part in t.slices((*_MEASURED, *_ERRORS), own.to_numpy()):
        measured = part[part["other_error"].notna()].drop_duplicates(_MEASURED)
        keys, errors = (measured[names].astype(object).to_numpy().tolist() for names in (_MEASURED, _ERRORS))
        for key, numbers in zip(keys, errors, strict=True):
            by_key.setdefault(tuple(key), words(*numbers))
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
    return {fingerprint: by_key[key] for fingerprint, key in sought.items() if key in by_key}
