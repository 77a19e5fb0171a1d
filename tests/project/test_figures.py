"""Figures of the pages are those of `docs/figures.toml`, and those are what their commands give."""

from pathlib import Path

import pytest

from tools import figures
from tools.figures import ROOT, Figure

FIGURES = figures.read()


@pytest.mark.parametrize("name", FIGURES)
def test_a_page_has_the_value_of_a_figure_once(name: str) -> None:
    assert (ROOT / FIGURES[name].page).read_text().count(FIGURES[name].written()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_what_its_command_gives(name: str) -> None:
    assert FIGURES[name].now() == FIGURES[name].value, "`just figures` writes what it is now"


def test_a_figure_that_is_out_of_date_is_written_into_its_page_and_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "figures.toml", tmp_path / "page.md"
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "FILE", file)
    section = '[{}]\npage = "page.md"\ntext = "{} {{}}."\nvalue = "{}"\ncommand = "6 * 7"\n'
    file.write_text(section.format("old", "There are", 41) + section.format("right", "Those are", 42))
    page.write_text("There are 41. Those are 42. Others are 41.")
    assert figures.main() == 1
    assert page.read_text() == "There are 42. Those are 42. Others are 41."
    assert figures.read()["old"] == Figure(page="page.md", text="There are {}.", value="42", command="6 * 7")
    assert capsys.readouterr().out == "page.md: old was 41, and is 42\n"
    assert figures.main() == 0
