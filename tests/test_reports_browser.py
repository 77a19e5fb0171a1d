"""The page in a real browser: it shows the findings and runs nothing in them."""

import shutil
import subprocess
from pathlib import Path

import pytest
from sample_findings import a_corpus, a_finding, several_observations

from reports.write import write

QUIET = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
HARM = "</pre><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def loaded(file: Path, profile: Path) -> str:
    """Return the document after a browser has loaded `file`."""
    assert BROWSER
    command = [BROWSER, *QUIET, f"--user-data-dir={profile}", "--dump-dom", file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.browser
@pytest.mark.skipif(not BROWSER, reason="no chromium here")
def test_the_browser_shows_findings_and_runs_no_script(tmp_path: Path) -> None:
    a_corpus(
        tmp_path / "out",
        *several_observations(),
        findings=(a_finding(detail=HARM, log=HARM, blame=HARM, paths=(HARM,)),),
    )
    [page] = write(tmp_path / "out", ["html"])
    document = loaded(page, tmp_path / "profile")
    assert f'id="{a_finding().fingerprint}"' in document
    assert "<title>difftest: out</title>" in document
    assert "<script" not in document
    assert "<img" not in document


@pytest.mark.browser
@pytest.mark.skipif(not BROWSER, reason="no chromium here")
def test_the_browser_runs_a_script_that_is_not_escaped(tmp_path: Path) -> None:
    """The same text, if not escaped, changes the title: the test above can fail."""
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><title>mine</title><pre>{HARM}</pre>")
    assert "<title>owned</title>" in loaded(file, tmp_path / "profile")
