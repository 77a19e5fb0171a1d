"""What a recipe does to the model that it builds, beside the arguments that it gives."""

import sys
from types import ModuleType

import pytest
import torch
from torch import nn

from difftest.cases.recipe import Feed, Recipe
from workers.own import recipes


class Stochastic(nn.Module):
    """A module that drops whole rows, as stochastic depth does."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_prob = 0.5


class Large(nn.Module):
    """Two layers of the same kind, and a classifier that holds most of the numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.25), Stochastic())
        self.classifier = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4096), nn.Linear(4096, 10))


def built(monkeypatch: pytest.MonkeyPatch, **changes: object) -> Large:
    """The model of a package that has this class alone."""
    package = ModuleType("diffusers")
    vars(package)["Large"] = Large
    monkeypatch.setitem(sys.modules, "diffusers", package)
    recipe = Recipe(
        package="diffusers",
        call="Large",
        inputs=(Feed(name="0", row=(4,)),),
        targets=Feed(name="targets", high=10),
        **changes,  # type: ignore[arg-type]
    )
    module = recipes.built(recipe)
    assert isinstance(module, Large)
    return module


def test_what_modules_draw_by_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(monkeypatch, calm=True)
    drawing = {made.layers[1]: "p", made.layers[2]: "drop_prob", made.classifier[0]: "p"}
    assert {getattr(module, name) for module, name in drawing.items()} == {0.0}
    assert built(monkeypatch).layers[1].p == 0.25


def test_a_sequence_of_modules_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(built(monkeypatch, cut={"layers": 1}).layers) == 1


def test_a_classifier_is_one_layer_in_place_of_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    made = built(monkeypatch, head="classifier")
    assert isinstance(made.classifier, nn.Linear)
    assert made.classifier(torch.zeros(2, 4)).shape == (2, 10)
