"""The page of some made-up nights, in a real browser: nothing is cut, empty, unexplained or too large."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import night_corpus
import pytest
from chromium import BROWSER, Browser, started
from sample_findings import BEGAN, ParsedPage

from difftest.jobs.campaign.reachable_entries import reachable_entries
from difftest.records.conclusion import Conclusion
from reports.formats import html
from reports.tables import LACKING
from reports.write import write
from workers.backends import candidates, titles

NIGHTS, CASES = 3, 40
WIDE, PHONE = 1400, 390
MOST_BYTES = 3_000_000
MOST_PAGES = 12
PLACE = "x => [x.getBoundingClientRect().left, x.getBoundingClientRect().right]"
CUT = """[...document.querySelectorAll(
    'h1, h2, h3, p, li, summary, dd, figure, .map td, .map th, .compared td, .history td, .two-by-two td')]
    .filter(x => x.checkVisibility() && getComputedStyle(x).writingMode === 'horizontal-tb')
    .filter(x => x.getBoundingClientRect().right > innerWidth + 1).map(x => x.textContent)"""
CUT_UPRIGHT = """[...document.querySelectorAll('.map thead span')]
    .filter(x => x.scrollHeight > x.clientHeight + 1).map(x => x.textContent)"""
EMPTY = """[...document.querySelectorAll('section, tbody td, dd, th[scope=row], figcaption, .title, caption')]
    .filter(x => x.checkVisibility() && !x.textContent.trim()).map(x => x.outerHTML)"""
UNEXPLAINED = """[...document.querySelectorAll('.map td.none, .map td.doubtful')].filter(x => !x.title.trim())
    .map(x => x.outerHTML)"""
KEPT_WITH_NOTHING = """[...document.querySelectorAll('section :last-child, figure :last-child')]
    .filter(x => getComputedStyle(x).breakAfter === 'avoid' && !x.closest('summary'))
    .map(x => x.outerHTML)"""
"""What ends a section and is still kept beside what follows: the next heading is then on the wrong sheet."""

DEBRIS = re.compile(
    r"_unsafe_view|other_single|no telling|right_siblings|\bNone\b|\bnan\b|<NA>|Symptom\.|Stage\."
    r"|\bOP\b|(?<!&)#|refused by (torch|xla)_|(torch|xla)_\w+ refused"
)
"""What stands for something that a reader could read, outside of messages."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of some nights in one folder."""
    out = tmp_path_factory.mktemp("nights") / "week"
    for night in range(NIGHTS):
        began = BEGAN + timedelta(days=night)
        night_corpus.make(out, CASES, f"night-{began:%Y-%m-%d}", began, salt=night)
    return write(out, ["html"], conclusion=Conclusion(), called=titles(), entries=reachable_entries())[0]


@pytest.mark.long
def test_no_key_and_no_debris_is_read(page: Path) -> None:
    content = page.read_text()
    assert not [words for words in re.findall(r'title="([^"]*)"', content) if DEBRIS.search(words)]
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
            assert opened.evaluate(CUT_UPRIGHT) == []
            assert opened.evaluate(EMPTY) == []
            assert opened.evaluate(UNEXPLAINED) == []
            assert not opened.events("Runtime.exceptionThrown", "Log.entryAdded")


@pytest.mark.browser
@pytest.mark.skipif(not BROWSER, reason="no chromium here")
def test_every_cell_of_the_support_table_is_on_a_phone(browser: Browser, page: Path) -> None:
    """A cell beyond the edge would have to be scrolled to; nothing would say so."""
    lacking = f"[...document.querySelectorAll('.table')].find(x => x.textContent.includes({LACKING!r}))"
    with browser.page(page, PHONE) as opened:
        opened.evaluate(f"{lacking}.open = true")
        cells = opened.evaluate(f"[...{lacking}.querySelectorAll('td')].map({PLACE})")
        assert len(cells) > 6
        assert all(0 <= left < right <= PHONE for left, right in cells)
        names = opened.evaluate(
            f"[...{lacking}.querySelectorAll('tr:last-child td')].map("
            "x => [getComputedStyle(x, '::before').content, getComputedStyle(x, '::before').display])"
        )
        columns = ("operator", "backend", "reason", "overload", "dtypes", "programs")
        assert names == [[f'"{name}"', "block"] for name in columns]


@pytest.mark.browser
@pytest.mark.skipif(not BROWSER, reason="no chromium here")
def test_no_word_of_the_two_by_two_is_broken_on_a_phone(browser: Browser, page: Path) -> None:
    """A word that does not fit makes its cell wider than the text's lines are."""
    words = "[...document.querySelectorAll('.two-by-two td')].filter(x => x.textContent.trim())"
    lines = (
        "x => { const range = document.createRange(); range.selectNodeContents(x); "
        "return [x.textContent.trim().split(' ').length, "
        "new Set([...range.getClientRects()].map(r => Math.round(r.top))).size] }"
    )
    with browser.page(page, PHONE) as opened:
        opened.evaluate("document.querySelectorAll('.finding details').forEach(x => { x.open = true })")
        counted = opened.evaluate(f"{words}.map({lines})")
        assert len(counted) > 10
        assert [pair for pair in counted if pair[1] > pair[0]] == []


@pytest.mark.browser
@pytest.mark.skipif(not BROWSER, reason="no chromium here")
def test_print_has_every_finding_on_few_pages_and_says_what_it_leaves_out(
    browser: Browser, page: Path
) -> None:
    with browser.page(page, 740) as opened:
        assert len(re.findall(rb"/Type\s*/Page\b", opened.pdf())) <= MOST_PAGES
        opened.emulate(media="print")
        heights = (
            "[...document.querySelectorAll('.finding .title')].map(x => x.getBoundingClientRect().height)"
        )
        findings = opened.evaluate("document.querySelectorAll('.finding').length")
        assert sum(height > 0 for height in opened.evaluate(heights)) == findings > 50
        tables = opened.evaluate(
            "[...document.querySelectorAll('.table')].map(x => "
            "[x.querySelectorAll('tbody tr').length, x.querySelectorAll('thead th').length, "
            "x.querySelector('table').checkVisibility(), x.querySelector('summary').innerText])"
        )
        for rows, columns, printed, words in tables:
            assert printed == (rows <= html.MOST_ROWS_PRINTED and columns <= html.MOST_COLUMNS_PRINTED)
            assert printed == ("not printed: see report.html" not in words)
        assert {printed for _, _, printed, _ in tables} == {True, False}
        assert opened.evaluate(KEPT_WITH_NOTHING) == []
        broken = "[...document.querySelectorAll('.history tr')].map(x => getComputedStyle(x).breakInside)"
        assert set(opened.evaluate(broken)) == {"avoid"}
        opened.evaluate("document.querySelector('.finding details').open = true")
        of_findings = "[...document.querySelectorAll('.finding')].map(x => getComputedStyle(x).breakInside)"
        first, *others = opened.evaluate(of_findings)
        assert (first, set(others)) == ("auto", {"avoid"}), "an open one may be as long as a sheet"
        opened.emulate()
        assert opened.evaluate("[...document.querySelectorAll('.in-print')].every(x => !x.checkVisibility())")


@pytest.mark.slow
@pytest.mark.parametrize("cases", [1000, pytest.param(5000, marks=pytest.mark.nightly)])
def test_a_night_of_thousands_of_cases_has_a_small_page(tmp_path: Path, cases: int) -> None:
    night_corpus.make(tmp_path, cases)
    assert write(tmp_path, ["html"], called=titles())[0].stat().st_size < MOST_BYTES
