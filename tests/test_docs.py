"""The documentation agrees with the program: generated sections, links, files, and the map of the rooms."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from pages import GUIDES, PAGES, ROOT
from rooms import FLOORS

SLOW_SECTIONS = {"support"}
"""Sections whose generation runs generators over hundreds of cases."""

LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()
SECTIONS = [
    pytest.param(page, id=page.name, marks=[pytest.mark.slow] if SLOW_SECTIONS & {*names} else [])
    for page in PAGES
    if (names := GENERATOR.section_names(page.read_text()))
]


@pytest.mark.parametrize("page", SECTIONS)
def test_generated_sections_are_current(page: Path) -> None:
    assert page.read_text() == GENERATOR.generated(page.read_text()), "run `python docs/generate.py`"


def test_every_generated_section_stands_in_one_page() -> None:
    names = [name for page in PAGES for name in GENERATOR.section_names(page.read_text())]
    assert sorted(names) == sorted(GENERATOR.SECTIONS)


def anchors(page: Path) -> set[str]:
    """The anchors that a web page of `page` has for its headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_existing_pages_and_headings(page: Path) -> None:
    for address, anchor in LINK.findall(page.read_text()):
        if address.startswith("https://"):
            continue
        target = page.parent / address if address else page
        assert target.exists(), f"{page.name} links to {address}"
        assert not anchor or anchor[1:] in anchors(target), f"{page.name} links to {address}{anchor}"


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for page in PAGES:
        assert page.parent == ROOT or page.name == "README.md" or f"({page.name})" in index


def test_the_architecture_shows_every_room_at_its_level() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    rooms = [(str(level), room) for level, floor in enumerate(FLOORS) for room in floor]
    assert sorted(rows) == sorted(rooms)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_folders_of_the_project_exist(page: Path) -> None:
    for path in re.findall(r"`((?:\.?\w+/)+[\w.]*)`", page.read_text()):
        if path.partition("/")[0] not in ("runs", "corpus") and not re.search(r"\b(NAME|BACKEND)\b", path):
            assert (ROOT / path).exists(), path
