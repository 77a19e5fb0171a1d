"""Who is at fault: {one device, the case's layout} on the guilty side and on the other, beside the oracle.

A divergence says that a candidate left the oracle. Whether the same backend leaves it without any sharding, and whether the
other side leaves it too, tells a backend's fault from a sharding fault, a fault shared by both sides, and an oracle in doubt.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

LAYER = "layer"
"""What the evidence calls the words of `layer`."""

_ALIKE = "is wrong alike"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoByTwo:
    """What the 2 x 2 showed; True where that run parts from the oracle too, None where it could not be had.

    `single`: the guilty backend on one device. `other`: the other side at the case's layout. `other_single`: the other side on one device.
    """

    single: bool | None
    other: bool | None
    other_single: bool | None


def verdict(side: str, placed: TwoByTwo, *, stable: tuple[int, int]) -> str:
    """The verdict on a divergence of `side` that came back `stable` (k of n) times, in words that reports and tables use."""
    back, repeats = stable
    if not repeats:
        return "inconclusive: it could not be run again"
    if not back:
        return "inconclusive: it did not come back"
    if placed.single is None:
        return f"{side} fault"
    if placed.single and placed.other_single:
        return "oracle in doubt"
    if placed.other and not placed.single:
        return "shared sharding fault"
    return f"{side} backend fault" if placed.single else f"{side} sharding fault"


def layer(side: str, framework: str, right: Collection[str], wrong: Collection[str]) -> str:
    """Which layer of `side` is at fault: its `framework` or what its frameworks share; empty where no other framework ran the case.

    `right` and `wrong` are the frameworks of the side's other backends that computed the case rightly, and that show the same fault. One
    that is not known (empty, as older bundles have it) may be the same and tells nothing.
    """
    if not framework:
        return ""
    if others := sorted({*right} - {framework, ""}):
        return f"{framework}: {', '.join(others)} is right"
    if others := sorted({*wrong} - {framework, ""}):
        return f"{side} itself, or what it is given: {', '.join(others)} {_ALIKE}"
    return ""


def beneath(evidence: Mapping[str, str]) -> bool:
    """Whether the evidence says that the fault lies beneath the side's frameworks, in what they share."""
    return evidence.get(LAYER, "").endswith(_ALIKE)
