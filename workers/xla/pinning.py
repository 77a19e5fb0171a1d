"""Collectives that gradients go through, and whether a case's collectives pin layouts."""

from msgspec import UNSET

from difftest.cases.case import Case
from difftest.cases.layers.collective import Collective


def learned(case: Case) -> list[Collective]:
    """The collectives that gradients go through."""
    layers = (layer for layer in case.model.layers if isinstance(layer, Collective))
    return [layer for layer in layers if layer.learned is not UNSET]


def pinned(case: Case) -> bool:
    """Whether collectives pin layouts: all or none, for XLA refuses a mixture; with gradients they do."""
    return case.forms.pin_layout or bool(learned(case))
