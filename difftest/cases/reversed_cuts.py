"""Which operands of a program two mesh axes cut along one dim in the reverse of mesh order."""

from difftest.cases.case import Case
from difftest.cases.layout import Shard


def cut_in_reverse(case: Case) -> frozenset[str]:
    """Of the operands that both axes of a mesh cut along one dim all but the first by name, or the only one.

    So two of them are cut in two orders. None without the form `strided`, or on a mesh of other axes.
    """
    if not case.forms.strided or len(case.layout.mesh.axes) != 2:  # noqa: PLR2004  an order is of two
        return frozenset()
    placed = sorted(case.layout.parameters.items())
    twice = [name for name, (one, other) in placed if isinstance(one, Shard) and one == other]
    return frozenset(twice[1:] or twice)
