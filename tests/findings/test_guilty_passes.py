"""`tools/guilty_passes.py`: which passes it writes to the files of faults."""

import shutil
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from difftest.findings.faults import KNOWN, KnownFault, read_faults
from difftest.jobs.filing.accusation import Accusation
from difftest.passes.guilty import Verdict
from difftest.records.evidence import NO_PASS
from tools import guilty_passes

NAME = "right_shift_on_xla"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a fault, which the tool may change."""
    monkeypatch.setattr(guilty_passes, "KNOWN", tmp_path)
    return Path(shutil.copy(KNOWN / f"{NAME}.toml", tmp_path))


def written(monkeypatch: pytest.MonkeyPatch, file: Path, release: str, verdict: Verdict) -> dict[str, str]:
    """The passes in the file after the tool ran on a release with this verdict."""

    def looked_for(_fault: KnownFault, _python: str) -> tuple[str, Accusation]:
        return release, Accusation(verdict=verdict, smallest=verdict)

    monkeypatch.setattr(guilty_passes, "looked_for", looked_for)
    result = CliRunner().invoke(guilty_passes.main, ["--only", NAME, "--write"])
    assert f"{NAME}, {release}: {verdict.name}: " in result.output
    return dict(tomllib.loads(file.read_text())["pass"])


def test_a_pass_is_written_beside_those_of_other_releases(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    before = next(fault.passes for fault in read_faults() if fault.name == NAME)
    verdict = Verdict(kind="pass", reason="wrong after it", guilty="fusion")
    after = written(monkeypatch, file, "jaxlib 99.1", verdict)
    assert after == {**before, "jaxlib 99.1": "fusion"}
    assert list(after)[-1] == "jaxlib 99.1"


@pytest.mark.parametrize("kind", NO_PASS)
def test_where_no_pass_is_at_fault_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, file: Path, kind: str
) -> None:
    before = file.read_text()
    written(monkeypatch, file, "jaxlib 99.1", Verdict(kind=kind, reason="it says so"))
    assert file.read_text() == before
