"""What the inputs of one case have in common."""

import msgspec

from difftest.cases.case import Case


def without_input(case: Case) -> Case:
    """What is equal for the inputs of one case: all but the seed and the regime of the numbers."""
    return msgspec.structs.replace(case, data=msgspec.structs.replace(case.data, regime="normal"), seed=0)
