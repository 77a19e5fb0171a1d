"""The page in a real browser, as a reader uses it; it sends no request and runs nothing in the findings."""

import re
import runpy
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from chromium import BROWSER, Browser, Page, started
from msgspec.structs import replace
from sample_findings import HOSTILE_TEXT, a_corpus, a_finding, several_observations

from difftest.judge.outcome import Symptom
from difftest.records.conclusion import Conclusion
from difftest.records.finding import Finding
from reports.write import write

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not BROWSER, reason="no chromium here")]

screenshots = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[2] / "docs" / "screenshots.py")))
CRASH, KNOWN = "xla_spmd-completion-crash-00000001", "xla_spmd-loss-mismatch-00000002"
HARM = "</pre><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
ISSUE = "https://github.com/pytorch/xla/issues/9735"
WIDE, PHONE = 1400, 390
TROUBLE = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
TITLES = "[...document.querySelectorAll('.finding')].filter(x => x.checkVisibility()).map(x => x.id)"
ABOVE = "each => each.getBoundingClientRect().bottom < innerHeight"
CUT = """[...document.querySelectorAll('h1, h2, h3, p, li, summary, dd, .map td, .map th, .compared td')]
    .filter(x => x.checkVisibility() && getComputedStyle(x).writingMode === 'horizontal-tb')
    .filter(x => x.getBoundingClientRect().right > innerWidth + 1).map(x => x.textContent)"""


def findings() -> tuple[Finding, ...]:
    """Two unknown findings, one of them hostile, and a known one."""
    crash = a_finding(
        fingerprint=CRASH, symptom=Symptom.CRASH, detail="step 0, forward, rank 0: SIGSEGV: died", hits=9
    )
    hostile = a_finding(detail=HARM, log=HARM, blame=HARM, paths=(HARM, HOSTILE_TEXT), evidence={HARM: HARM})
    return crash, hostile, replace(a_finding(upstream=ISSUE), fingerprint=KNOWN)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("campaign") / "out"
    a_corpus(out, *several_observations(), findings=findings())
    return write(out, ["html"], conclusion=Conclusion(), called={"xla_spmd": "XLA SPMD"})[0]


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    """The page in a wide window; after each test it has neither complained nor requested anything."""
    with browser.page(file, WIDE) as opened:
        yield opened
        assert not opened.events(*TROUBLE)
        requested = [event["request"]["url"] for event in opened.events("Network.requestWillBeSent")]
        assert requested == [file.as_uri()]


def choose(page: Page, name: str, value: str) -> None:
    """Gives one of the page's fields a value as a reader does."""
    field = f"document.querySelector('.tools').elements.{name}"
    page.evaluate(f"{field}.value = {value!r}")
    page.evaluate(f"['input', 'change'].forEach(e => {field}.dispatchEvent(new Event(e)))")


def test_what_needs_somebody_is_visible_without_scrolling(page: Page) -> None:
    for width in (WIDE, PHONE):
        page.resize(width)
        shown = f"[...document.querySelectorAll('#need .finding')].every({ABOVE})"
        assert page.evaluate(shown), f"at {width} pixels"
        assert (
            page.evaluate("document.querySelector('.verdict').textContent")
            == "2 causes need you. 1 is known."
        )


def test_what_is_known_is_closed_and_the_rest_is_open(page: Page) -> None:
    assert page.evaluate(TITLES) == [CRASH, a_finding().fingerprint]
    page.evaluate("document.querySelector('#known > summary').click()")
    assert page.evaluate(TITLES) == [CRASH, a_finding().fingerprint, KNOWN]


def test_search_and_filters_leave_what_fits_and_open_its_group(page: Page) -> None:
    choose(page, "search", "9735")
    assert page.evaluate(TITLES) == [KNOWN]
    assert page.evaluate("document.querySelector('output').textContent") == "1 of 3"
    choose(page, "search", "")
    choose(page, "symptom", "crash")
    assert page.evaluate(TITLES) == [CRASH]


def test_findings_sort(page: Page) -> None:
    choose(page, "sort", "title")
    assert page.evaluate(TITLES) == [CRASH, a_finding().fingerprint]
    choose(page, "sort", "last")
    choose(page, "sort", "hits")
    assert page.evaluate(TITLES)[0] == CRASH


def test_the_keyboard_opens_a_finding_and_its_address_does(page: Page) -> None:
    opened = f"document.querySelector('#{CRASH} details').open"
    assert not page.evaluate(opened)
    page.evaluate(f"document.querySelector('#{CRASH} summary').focus()")
    page.key("Enter")
    assert page.evaluate(opened)
    page.evaluate(f"location.hash = {KNOWN!r}")
    page.wait(f"document.querySelector('#known').open && document.querySelector('#{KNOWN} details').open")


def test_a_command_is_copied(page: Page) -> None:
    page.evaluate(f"document.querySelector('#{CRASH} details').open = true")
    page.evaluate(f"document.querySelector('#{CRASH} .copy').click()")
    page.wait(f"document.querySelector('#{CRASH} .copy').textContent === 'copied'")


def test_nothing_is_cut_at_any_width(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    for width in (WIDE, 1000, PHONE):
        page.resize(width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT) == []


def test_dark_pages_are_dark_and_printed_ones_show_closed_groups(page: Page) -> None:
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate(prefers_color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.emulate(media="print")
    assert page.evaluate(f"document.querySelector('#{KNOWN}').getBoundingClientRect().height") > 0
    assert page.evaluate("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert page.pdf().startswith(b"%PDF")


def test_hostile_text_stays_text(page: Page) -> None:
    assert page.evaluate("document.title") == "difftest: out"
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.evaluate(f"document.body.textContent.includes({HARM!r})")


def test_pictures_show_the_page_in_all_its_looks(file: Path, tmp_path: Path) -> None:
    made = {
        picture.name: picture.read_bytes() for picture in screenshots.pictures(file, tmp_path, whole=True)
    }
    further = {name for name in made if re.fullmatch(r"(wide|dark|phone)-\d+\.png", name)}
    assert [name for name in made if name not in further] == [
        *("wide.png", "dark.png", "phone.png", "finding.png", "printed.pdf")
    ]
    widths = {name: struct.unpack(">I", made[f"{name}.png"][16:20])[0] for name in screenshots.LOOKS}
    assert widths == {"wide": WIDE, "dark": WIDE, "phone": PHONE}
    assert made["wide.png"] != made["dark.png"]


def test_a_page_that_is_too_long_for_one_picture_has_several(browser: Browser, tmp_path: Path) -> None:
    """Chromium says `Page is too large` to one picture of this page."""
    heights, file = (8000, 8000, 4000), tmp_path / "long.html"
    bands = [
        f"<p style='background: #{n}{n}{n}; height: {size}px; margin: 0'>" for n, size in enumerate(heights)
    ]
    view = "<meta name=viewport content='width=device-width'>"
    file.write_text(f"<!doctype html>{view}<body style='margin: 0'>{''.join(bands)}")
    with browser.page(file, PHONE) as opened:
        made = opened.screenshots(tmp_path / "long.png")
    assert [picture.name for picture in made] == ["long.png", "long-2.png", "long-3.png"]
    sizes = [struct.unpack(">II", picture.read_bytes()[16:24]) for picture in made]
    assert sizes == [(PHONE, height) for height in heights]
    assert made[0].read_bytes() != made[1].read_bytes(), "the second is the page's second part"


def test_the_browser_runs_a_script_that_is_not_escaped(browser: Browser, tmp_path: Path) -> None:
    """The same text, if not escaped, changes the title: the test above can fail."""
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><title>mine</title><pre>{HARM}</pre>")
    with browser.page(file) as opened:
        opened.wait("document.title === 'owned'")
