"""Screenshots of a report page, for README and documentation.

    python docs/screenshots.py runs/first --to docs/pages

The folder is that of a campaign that has a `report.html`. It needs Chromium. Without `--whole` there are
pictures of what a reader sees without scrolling, wide, dark and on a phone, and of a finding with its
evidence. With it they show the whole page with all groups open, a long one in several pictures, and there is
a PDF of what is printed.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from chromium import BROWSER, Page, started  # noqa: E402  found on the path above

from reports.formats.html import FILENAME  # noqa: E402

WIDE, PHONE = 1400, 390
HEIGHT = 1000
"""Of the window, in pixels; a reader sees so much without scrolling."""

LOOKS = {"wide": (WIDE, "light"), "dark": (WIDE, "dark"), "phone": (PHONE, "light")}
OPENED = "document.querySelectorAll('details').forEach(each => { each.open = true })"
CHOOSE = """(() => {
    const chosen = document.querySelector('.finding:has(.drawing)') ?? document.querySelector('.finding');
    chosen.setAttribute('data-chosen', '');
    for (let at = chosen.firstElementChild; at; at = at.parentElement) {
        if (at.tagName === 'DETAILS') at.open = true;
    }
})()"""
"""Opens the finding whose picture is taken: one with curves, where there is one."""


def main() -> None:
    """Writes the pictures and says where they are."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the output folder of a campaign")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "pages", help="where the pictures go")
    parser.add_argument("--whole", action="store_true", help="the whole page, and as it is printed")
    arguments = parser.parse_args()
    file = arguments.folder.resolve() / FILENAME
    if not BROWSER or not file.is_file():
        missing = f"there is no {file}; `difftest report` makes it" if BROWSER else "there is no Chromium"
        parser.error(missing)
    for picture in pictures(file, arguments.to, whole=arguments.whole):
        sys.stdout.write(f"{picture}\n")


def pictures(file: Path, folder: Path, *, whole: bool = False) -> list[Path]:
    """The pictures of a page in a folder, by the names of `LOOKS`; the whole page also as a PDF.

    A whole page that is too long for one picture has further ones, such as `wide-2.png`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with tempfile.TemporaryDirectory() as profile, started(Path(profile)) as browser:
        for name, (width, scheme) in LOOKS.items():
            with browser.page(file, width, prefers_color_scheme=scheme) as page:
                page.resize(width, HEIGHT)
                page.evaluate(OPENED if whole else "0")
                picture = folder / f"{name}.png"
                if whole:
                    made += page.screenshots(picture)
                else:
                    page.screenshot(picture)
                    made.append(picture)
        with browser.page(file, WIDE, prefers_color_scheme="light") as page:
            made += _finding(page, folder)
            if whole:
                made.append(folder / "printed.pdf")
                made[-1].write_bytes(page.pdf())
    return made


def _finding(page: Page, folder: Path) -> list[Path]:
    """The picture of a finding with its evidence; none where there is no finding."""
    if page.evaluate("!document.querySelector('.finding')"):
        return []
    page.evaluate(CHOOSE)
    made = folder / "finding.png"
    page.screenshot(made, of="[data-chosen]")
    return [made]


if __name__ == "__main__":
    main()
