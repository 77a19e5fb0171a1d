"""The twin of a case for references: the same training in float64 on one device, without parallelism.

References of another make compute it, and torch itself as users call it. What then differs from the oracle is
no matter of a device or of a wrapper.
"""

import msgspec

from difftest.cases.case import Case
from difftest.cases.feature import declared
from difftest.cases.options import Replication, Start
from difftest.cases.wrapping import Regions

PATH = "references"
"""The path of twins; no generator draws on it."""


def is_twin(case: Case) -> bool:
    """Whether a case is one for references."""
    return case.path == PATH


def twin(case: Case) -> Case:
    """The twin of a case; its numbers are drawn from the same seed, and are not rounded to fewer digits."""
    return msgspec.structs.replace(
        case.unsharded(),
        path=PATH,
        dtype="float64",
        replication=Replication(),
        start=Start(),
        sdpa=msgspec.UNSET,
        spelling=msgspec.UNSET,
        sharding=msgspec.UNSET,
        regions=Regions(weighted=case.cut_by.weighted),
        pipeline=msgspec.UNSET,
        features=tuple(one for one in case.training_features if not declared(one.name).OF_RANKS),
    )


def no_twin(case: Case) -> str | None:
    """Why a reference does not run a case: it runs twins alone."""
    return None if is_twin(case) else "references run the twins of cases, which are on one device in float64"
