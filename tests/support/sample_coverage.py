"""Lines of a campaign that say what their comparisons covered."""

from sample_findings import an_observation

from difftest.records.covered import Covered

LINES = [
    an_observation(
        index=0,
        side="torch",
        covered=Covered(
            forward={"even": ("add", "mul"), "whole": ("neg",)},
            entries={"even": ("add",)},
            rules=("add S0>S0",),
        ),
    ),
    an_observation(
        index=1,
        side="xla",
        dtype="bfloat16",
        regime="ties",
        covered=Covered(forward={"uneven": ("add",)}, backward={"uneven": ("mul",)}, lowered=("aten::add",)),
    ),
    an_observation(index=2, side="torch", covered=Covered()),
]
