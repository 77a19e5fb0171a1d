"""Who is at fault: {one device, the case's layout} on the guilty side and on another, beside the oracle.

A divergence says that a candidate differs from the oracle. Whether the same backend also differs without any
sharding, and whether another side differs too, tells apart a backend's fault, a sharding fault, a fault
shared by both sides, and an oracle in doubt.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

LAYER = "layer"
"""The key of `layer`'s text in a finding's evidence."""

_ALIKE = "is wrong alike"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoByTwo:
    """The results of the 2 x 2: True where a run differs from the oracle too, None where there was no run.

    `single`: the guilty backend on one device. `other`: the other side at the case's layout. `other_single`:
    the other side on one device.
    """

    single: bool | None
    other: bool | None
    other_single: bool | None


TORCH_ITSELF = "torch itself"
"""The blame where a reference of another make differs: torch is wrong on every device."""


def verdict(
    side: str,
    placed: TwoByTwo,
    *,
    stable: tuple[int, int] | None,
    of_reference: bool = False,
    reference_differs: bool = False,
) -> str:
    """The verdict on a divergence of `side` that was reproduced `stable` (k of n) times, as text.

    `stable` is None of a known fault, which is believed without repetitions.
    `of_reference`: it is a reference of another make that diverges. `reference_differs`: one differs from the
    oracle too, so that what both sides show alike is torch's fault, and no doubt about the oracle.
    """
    if stable and not stable[0]:
        return f"inconclusive: it {'did not come back' if stable[1] else 'could not be run again'}"
    if of_reference:
        return TORCH_ITSELF
    if placed.single is None:
        return f"{side} fault"
    if placed.single and placed.other_single:
        return TORCH_ITSELF if reference_differs else "oracle in doubt"
    if placed.other and not placed.single:
        return "shared sharding fault"
    return f"{side} backend fault" if placed.single else f"{side} sharding fault"


def layer(side: str, framework: str, right: Collection[str], wrong: Collection[str]) -> str:
    """Which layer of `side` is at fault: its `framework`, or what its frameworks share; empty if unknown.

    `right` and `wrong` are the frameworks of the side's other backends that computed the case correctly, and
    that show the same fault. An unknown one (empty, as in older bundles) may be the same framework and is
    ignored. Without another framework that ran the case there is no answer.
    """
    if not framework:
        return ""
    if others := sorted({*right} - {framework, ""}):
        return f"{framework}: {', '.join(others)} is right"
    if others := sorted({*wrong} - {framework, ""}):
        return f"{side} itself, or what it is given: {', '.join(others)} {_ALIKE}"
    return ""


def beneath(evidence: Mapping[str, str]) -> bool:
    """Whether the evidence says that the fault lies in what the side's frameworks share."""
    return evidence.get(LAYER, "").endswith(_ALIKE)
