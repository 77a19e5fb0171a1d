"""Which of a source's recipes is chosen: the first that runs and whose batch norms have what to normalize."""

import sys
from collections.abc import Iterable, Iterator
from types import ModuleType, SimpleNamespace

import pytest
from torch import Tensor, nn

from difftest.cases.recipe import Feed, Recipe
from difftest.ground.errors import UsageError
from workers.own import fitting, named

CLASSES = 10


class Stages(nn.Module):
    """Halves the image, normalizes every channel of it (of the rows alone, if so), and classifies."""

    def __init__(self, norm: str = "images") -> None:
        super().__init__()
        self.halved = nn.Conv2d(3, 4, 2, stride=2)
        self.norm = {"images": nn.BatchNorm2d(4), "layer": nn.GroupNorm(1, 4)}.get(norm, nn.Identity())
        self.rows = nn.BatchNorm1d(4) if norm == "rows" else nn.Identity()
        self.head = nn.Linear(4, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """The logits of every image."""
        logits: Tensor = self.head(self.rows(self.norm(self.halved(images)).mean((2, 3))))
        return logits


def side(monkeypatch: pytest.MonkeyPatch, sides: Iterable[int], **arguments: str) -> int:
    """The side of the images of the recipe that is chosen, of those with these sides in order."""
    package = ModuleType("timm")
    vars(package)["create_model"] = lambda _name, pretrained, **given: Stages(**given)
    monkeypatch.setitem(sys.modules, "timm", package)

    def candidates(_name: str) -> Iterator[Recipe]:
        for one in sides:
            yield Recipe(
                package="timm",
                call="stages",
                arguments=arguments,
                inputs=(Feed(name="0", row=(3, one, one)),),
                targets=Feed(name="targets", high=CLASSES),
                loss="cross_entropy",
            )

    monkeypatch.setattr(named, "load", lambda _source: SimpleNamespace(candidates=candidates))
    return fitting.fitted("timm:stages").inputs[0].row[-1]


def test_a_recipe_counts_in_which_every_batch_norm_has_values_to_normalize(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert fitting.ROWS * 1 * 1 < fitting.LEAST_NORMALIZED <= fitting.ROWS * 2 * 2
    assert side(monkeypatch, (2, 4, 8)) == 4


def test_where_there_is_none_the_first_that_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert side(monkeypatch, (1, 2, 3)) == 2
    assert side(monkeypatch, (2,) * (fitting.MORE + 1) + (4,)) == 2


@pytest.mark.parametrize("norm", ["layer", "rows"])
def test_the_smallest_image_is_enough_for_any_other_norm(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert side(monkeypatch, (2, 4), norm=norm) == 2


def test_what_does_not_run_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"no small model of that name runs here: RuntimeError: .*ernel"):
        side(monkeypatch, (1,))
