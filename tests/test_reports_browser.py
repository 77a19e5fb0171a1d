"""The page in a real browser: findings are there, and nothing in them runs."""

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
    """The document after a browser loaded `file`."""
    assert BROWSER
    command = [BROWSER, *QUIET, f"--user-data-dir={profile}", "--dump-dom", file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.browser
@pytest.mark.skipif(not BROWSER, reason="no chromium here")
def test_the_browser_shows_findings_and_runs_nothing(tmp_path: Path) -> None:
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
def test_the_browser_would_have_shown_a_script(tmp_path: Path) -> None:
    """The test above can fail: the same text unescaped takes the title over."""
    file = tmp_path / "page.html"
    file.write_text(f"<!doctype html><title>mine</title><pre>{HARM}</pre>")
    assert "<title>owned</title>" in loaded(file, tmp_path / "profile")
