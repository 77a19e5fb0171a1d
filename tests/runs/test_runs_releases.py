"""`difftest compare --by release`: the package whose release parts two runs of one script."""

import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import Result, command
from pages import ROOT
from sample_runs import noisy, training, write

from difftest.ground.errors import InfrastructureError
from difftest.jobs.installed import environments
from difftest.runs import layout
from difftest.runs.layout import Package
from difftest.runs.read import read
from difftest.runs.releases import changes, requirements

RUN = training()

OLD = {
    "alpha": Package(version="1.0"),
    "heavy": Package(version="2.9.0", pins=("heavy-kernels", "device-12")),
    "heavy-kernels": Package(version="2.9.0"),
    "device-12": Package(version="12.8"),
    "omega": Package(version="5.0"),
    "same": Package(version="1.0"),
}
NEW = {
    "alpha": Package(version="1.1"),
    "heavy": Package(version="2.15.0", pins=("heavy-kernels", "device-13")),
    "heavy-kernels": Package(version="2.15.0"),
    "omega": Package(version="6.0"),
    "same": Package(version="1.0"),
    "device-13": Package(version="13.2", pins=("device-13-part",)),
    "device-13-part": Package(version="13.2.1"),
    "added": Package(version="1.0"),
}

SCRIPT = """
import os
from pathlib import Path
from sample_runs import noisy, training, write
from difftest.runs import layout
steps = noisy(training(), 1e-7)
installed = os.environ["REQUIREMENTS"].split()
if {guilty!r} in installed:
    steps[1][layout.OUTPUT, "block.mlp"] *= 3
write(Path(os.environ["DIFFTEST_RECORDING"]), steps)
"""


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    wrong = noisy(RUN, 1e-7)
    wrong[1][layout.OUTPUT, "block.mlp"] *= 3
    first = write(tmp_path / "old", RUN, packages=OLD)
    return first, write(tmp_path / "new", wrong, packages=NEW)


def interpreters(
    monkeypatch: pytest.MonkeyPatch, folder: Path, refused: Sequence[str] = ()
) -> list[list[str]]:
    """Environments are this Python, which is told what they have; returns what was requested.

    An environment with one of `refused` and not all of them cannot be made.
    """
    requested: list[list[str]] = []

    def make(_root: Path, wanted: Sequence[str], _python: Path = Path(sys.executable)) -> Path:
        requested.append([*wanted])
        if refused and any(one in wanted for one in refused) and not all(one in wanted for one in refused):
            msg = "these versions do not work together"
            raise InfrastructureError(msg)
        python = folder / f"python{len(requested)}"
        paths = os.pathsep.join((str(ROOT), str(ROOT / "tests" / "support")))
        python.write_text(
            f"#!/bin/sh\nexport REQUIREMENTS='{' '.join(wanted)}' PYTHONPATH='{paths}'\n"
            f'exec {sys.executable} "$@"\n'
        )
        python.chmod(python.stat().st_mode | stat.S_IEXEC)
        return python

    monkeypatch.setattr(environments, "make", make)
    return requested


def search(pair: Sequence[Path], folder: Path, guilty: str, *options: str) -> Result:
    """What the command says of a script that differs with the package `guilty`."""
    script = folder / "script.py"
    script.write_text(SCRIPT.format(guilty=guilty))
    return command("compare", *pair, "--by", "release", "--script", str(script), *options)


@pytest.mark.long
@pytest.mark.parametrize(
    ("guilty", "label"),
    [
        ("alpha==1.1", "alpha 1.0 -> 1.1"),
        ("heavy==2.15.0", "heavy 2.9.0 -> 2.15.0 (with heavy-kernels)"),
        ("omega==6.0", "omega 5.0 -> 6.0"),
    ],
)
def test_the_guilty_package_is_named(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guilty: str, label: str
) -> None:
    requested = interpreters(monkeypatch, tmp_path)
    done = search(pair, tmp_path, guilty)
    assert done.status == 1
    assert f"The difference comes with {label}." in done.output
    assert all(("heavy==2.15.0" in one) == ("heavy-kernels==2.15.0" in one) for one in requested)
    assert all("same==1.0" in one and "-e" in one for one in requested)


@pytest.mark.long
def test_packages_that_change_only_together_are_named_together(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreters(monkeypatch, tmp_path, refused=("alpha==1.1", "heavy==2.15.0"))
    done = search(pair, tmp_path, "heavy==2.15.0", "--json")
    release = json.loads(done.output[done.output.index("{") :])["release"]
    assert release["suspects"] == ["alpha 1.0 -> 1.1", "heavy 2.9.0 -> 2.15.0 (with heavy-kernels)"]
    assert release["answers"]["alpha 1.0 -> 1.1"] == "untold"


@pytest.mark.long
def test_a_difference_that_no_package_brings_is_said_to_be_none(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreters(monkeypatch, tmp_path)
    for guilty, says in (("same==1.0", "packages already"), ("none", "are not the cause")):
        assert says in search(pair, tmp_path, guilty).output


def test_changes_are_grouped_by_what_pins_them(pair: tuple[Path, Path]) -> None:
    first, second = map(read, pair)
    changed = changes(first, second)
    assert [[name for name, _, _ in change.versions] for change in changed] == [
        ["alpha"],
        ["heavy", "heavy-kernels"],
        ["omega"],
    ]
    assert requirements(first, second, changed[:1], ["-e", "."])[:2] == ["alpha==1.1", "heavy==2.9.0"]


def test_what_a_package_pins_comes_and_goes_with_it(pair: tuple[Path, Path]) -> None:
    first, second = map(read, pair)
    alpha, heavy, _ = changes(first, second)
    before = {*requirements(first, second, [alpha], [])}
    after = {*requirements(first, second, [alpha, heavy], [])}
    assert before - after == {"heavy==2.9.0", "heavy-kernels==2.9.0", "device-12==12.8"}
    assert after - before == {
        *("heavy==2.15.0", "heavy-kernels==2.15.0", "device-13==13.2", "device-13-part==13.2.1")
    }


@pytest.mark.long
def test_a_package_whose_environment_gives_no_answer_is_named_for_the_second_run(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreters(monkeypatch, tmp_path, refused=("omega==6.0", "never"))
    done = search(pair, tmp_path, "omega==6.0")
    assert "The difference comes with omega 5.0 -> 6.0." in done.output
    assert "no answer up to omega 5.0 -> 6.0: these versions do not work together" in done.output


def test_what_cannot_be_searched_is_wrong_usage(pair: tuple[Path, Path], tmp_path: Path) -> None:
    wrong = noisy(RUN, 1e-7)
    wrong[1][layout.OUTPUT, "block.mlp"] *= 3
    same = write(tmp_path / "same", wrong, packages=OLD)
    silent = write(tmp_path / "silent", wrong)
    for given, says in (
        ((*pair, "--by", "release"), "--by release needs --script"),
        ((*pair, "--script", "x.py"), "--by release needs --script"),
        ((pair[0], same, "--by", "release", "--script", "x.py"), "have the same versions"),
        ((pair[0], silent, "--by", "release", "--script", "x.py"), "does not say which packages"),
    ):
        done = command("compare", *given)
        assert (done.status, says in done.output) == (2, True), done.output
