"""The page of some made-up nights, in a real browser: nothing is cut, empty, unexplained or too large."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import night_corpus
import pytest
from chromium import BROWSER, Browser, started
from sample_findings import BEGAN, ParsedPage

from reports.write import write
from workers.backends import candidates, titles

NIGHTS, CASES = 3, 70
WIDE, PHONE = 1400, 390
MOST_BYTES = 3_000_000
CUT = """[...document.querySelectorAll(
    'h1, h2, h3, p, li, summary, dd, figure, .map td, .map th, .compared td, .history td, .two-by-two td')]
    .filter(x => x.checkVisibility() && getComputedStyle(x).writingMode === 'horizontal-tb')
    .filter(x => x.getBoundingClientRect().right > innerWidth + 1).map(x => x.textContent)"""
EMPTY = """[...document.querySelectorAll('section, tbody td, dd, th[scope=row], figcaption, .title, caption')]
    .filter(x => x.checkVisibility() && !x.textContent.trim()).map(x => x.outerHTML)"""
UNEXPLAINED = """[...document.querySelectorAll('.map td.none, .map td.doubtful')].filter(x => !x.title.trim())
    .map(x => x.outerHTML)"""
DEBRIS = re.compile(
    r"_unsafe_view|other_single|no telling|right beside it|\bNone\b|\bnan\b|<NA>|Symptom\.|Stage\."
)
"""What stands for something that a reader could read, outside of messages."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of some nights in one folder."""
    out = tmp_path_factory.mktemp("nights") / "week"
    for night in range(NIGHTS):
        began = BEGAN + timedelta(days=night)
        night_corpus.make(out, CASES, f"night-{began:%Y-%m-%d}", began, salt=night)
    return write(out, ["html"], shortfalls=(), called=titles())[0]


def test_no_key_and_no_debris_is_read(page: Path) -> None:
    content = page.read_text()
    read = ParsedPage(re.sub(r"<pre>.*?</pre>", "", content, flags=re.DOTALL)).text
    assert not DEBRIS.findall(read)
    names = set(candidates())
    tables = re.sub(r"<(small|code|dd|dt|article|a)\b.*?</\1>", "", content, flags=re.DOTALL)
    assert not [name for name in names if re.search(rf"<t[dh][^>]*>{name}<", tables)]
    assert content.count('class="drawing"') > 1
    assert "Where 0.weight, step 1, backward is wrong" in content


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.mark.browser
@pytest.mark.skipif(not BROWSER, reason="no chromium here")
@pytest.mark.parametrize("width", [WIDE, 794, PHONE])
def test_nothing_is_cut_empty_or_unexplained(browser: Browser, page: Path, width: int) -> None:
    for media in ("", "print") if width > PHONE else ("",):
        with browser.page(page, width) as opened:
            opened.emulate(media=media)
            opened.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            assert opened.evaluate(CUT) == []
            assert opened.evaluate(EMPTY) == []
            assert opened.evaluate(UNEXPLAINED) == []
            assert not opened.events("Runtime.exceptionThrown", "Log.entryAdded")


@pytest.mark.slow
def test_a_night_of_5000_cases_has_a_small_page(tmp_path: Path) -> None:
    night_corpus.make(tmp_path, 5000)
    assert write(tmp_path, ["html"], called=titles())[0].stat().st_size < MOST_BYTES
