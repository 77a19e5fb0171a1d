"""`difftest watch`: which releases it looks at, what it runs on them, how it continues, what it writes."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import msgspec
import pytest
from click.testing import CliRunner

from difftest.commands import watch as command
from difftest.findings import faults
from difftest.findings.faults import NEWEST, KnownFault, KnownScript
from difftest.findings.flips import Tried
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.installed import index
from difftest.jobs.watch import warm_scripts, watch
from difftest.jobs.watch.case_states import CaseState
from difftest.jobs.watch.journal import FILE
from difftest.jobs.watch.places import ReleasePython
from difftest.jobs.watch.releases import Release, in_file, in_index, newer, parsed
from difftest.jobs.watch.script_states import ending

if TYPE_CHECKING:
    from difftest.records.finding import State

NEW = Release(package="torch", version="2.16.0")

SCRIPTS = {
    "always": "print('expected 1, actual 2')",
    "mended": "import sys; sys.exit(1)",
    "returned": "print('expected 1, actual 2')",
    "hangs": "import time; time.sleep(60)",
    "broken": "import no_such_module",
    "no_python": "this is no Python",
}
"""By name, what is run on the new release. On the one before it all but `returned` showed their fault."""


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[KnownFault]:
    """Faults of torch with these scripts, whose releases the list knows up to 2.15.0."""
    monkeypatch.setattr(faults, "KNOWN", tmp_path)
    for name, text in SCRIPTS.items():
        (tmp_path / f"{name}.py").write_text(text)
    states: dict[str, State] = {name: "fixed" if name == "returned" else "alive" for name in SCRIPTS}
    return [
        KnownFault(
            name=name, title=f"{name} is odd", package="torch", kind="crash", releases={"2.15.0": state}
        )
        for name, state in states.items()
    ]


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[Release]:
    """The releases that were looked at, all of them in this Python, whose scripts run alone."""
    looked = list[Release]()

    def place(release: Release, *_: object) -> ReleasePython:
        looked.append(release)
        return ReleasePython(python=sys.executable)

    monkeypatch.setattr(watch, "place", place)
    monkeypatch.setattr(warm_scripts, "ALONE", ("",))
    return looked


def run(
    folder: Path, known: Sequence[KnownFault], *chosen: Release, end: float = float("inf")
) -> watch.Watched:
    messages = list[str]()
    return watch.watch(
        watch.Watch(
            folder=folder,
            releases=chosen or (NEW,),
            faults=known,
            script_seconds=6.0,
            end=end,
            say=messages.append,
        )
    )


@pytest.mark.long
def test_what_the_release_changed_is_compared_with_what_the_list_knows(
    tmp_path: Path, known: Sequence[KnownFault], places: list[Release]
) -> None:
    result = run(tmp_path / "out", known)
    assert {flip.after.name: str(flip.became) for flip in result.flips} == {
        "mended": "fixed",
        "returned": "broken",
        "hangs": "changed",
        "broken": "changed",
        "no_python": "changed",
    }
    notes = {one.name: one.note for one in result.tried if one.state == "unclear"}
    assert notes["hangs"] == "not finished after 6 s"
    assert "no_such_module" in notes["broken"]


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("[rank1]: ValueError: a list\n[rank1]:   [False, True])\n", "ValueError: a list"),
        ("a.b.SomeError: first\nRuntimeError: last\nframe #3: _start + 0x21 (0x55d)\n", "RuntimeError: last"),
        ("RuntimeError: \n\nSegmentation fault\n", "Segmentation fault"),
        ("\n", "no output"),
    ],
)
def test_of_a_script_that_ends_otherwise_the_line_of_its_exception_is_kept(output: str, line: str) -> None:
    assert ending(output) == line


def test_the_same_command_continues_and_runs_nothing_twice(
    tmp_path: Path, known: Sequence[KnownFault], places: list[Release]
) -> None:
    cut = run(tmp_path / "out", known, end=time.monotonic() - 1)
    assert cut.left
    assert [one for one in cut.tried if one.when] == []
    first = run(tmp_path / "out", known[:2])
    journal = tmp_path / "out" / FILE
    with journal.open("a") as file:
        file.write('{"package": "tor')  # the power went off
    assert run(tmp_path / "out", known[:2]).flips == first.flips
    assert len(journal.read_text().splitlines()) == 2
    assert len(places) == 2, "nothing was left to run, so that no environment was needed"


def test_a_journal_of_something_else_is_refused(tmp_path: Path, known: Sequence[KnownFault]) -> None:
    (tmp_path / FILE).write_text('{"a": 1}\n')
    with pytest.raises(UsageError, match=rf"{FILE}, line 1: .*`difftest watch`"):
        run(tmp_path, known)


def test_a_release_that_cannot_be_made_is_named_and_the_others_are_tried(
    tmp_path: Path, known: Sequence[KnownFault], places: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Release(package="torch", version="2.17.0")

    def place(release: Release, *_: object) -> ReleasePython:
        if release == bad:
            msg = "no wheel for it"
            raise InfrastructureError(msg)
        return ReleasePython(python=sys.executable)

    monkeypatch.setattr(watch, "place", place)
    result = run(tmp_path / "out", known[:1], bad, NEW)
    assert result.problems == {"torch 2.17.0": "no wheel for it"}
    assert [one.release for one in result.tried if one.when] == ["2.16.0"]


def test_a_script_that_says_something_new_in_a_fork_runs_alone_and_that_counts(
    tmp_path: Path, known: Sequence[KnownFault], places: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_scripts, "ALONE", ())
    monkeypatch.setattr(warm_scripts, "WARM", {"": ("json",)})
    (tmp_path / "always.py").write_text("import sys; sys.exit('json' in sys.modules)")
    (tmp_path / "mended.py").write_text("import sys; sys.exit('json' not in sys.modules)")
    states = {one.name: one.state for one in run(tmp_path / "out", known[:2]).tried if one.when}
    assert states == {"always": "alive", "mended": "alive"}, (
        "the first in its own Python, the second in a fork"
    )


def test_scripts_go_on_where_no_warm_python_can_be_had(
    tmp_path: Path, known: Sequence[KnownFault], places: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_scripts, "ALONE", ())
    monkeypatch.setattr(warm_scripts, "WARM", {"": ("no_such_module",)})
    states = {one.name: one.state for one in run(tmp_path / "out", known[:2]).tried if one.when}
    assert states == {"always": "alive", "mended": "fixed"}


def test_the_files_say_what_broke_and_the_status_is_1(
    tmp_path: Path, known: Sequence[KnownFault], places: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "read_faults", lambda: known[:3])
    out = tmp_path / "out"
    given = [str(out), "--release", "torch==2.16.0", "--sample", "0", "--json"]
    done = CliRunner().invoke(command.command, given, standalone_mode=False)
    assert done.return_value == 1, done.output
    flips = json.loads((out / "flips.json").read_text())["flips"]["torch"]
    assert [len(flips[name]) for name in ("broken", "changed", "fixed")] == [1, 0, 1]
    results = json.loads((out / "flips.sarif").read_text())["runs"][0]["results"]
    assert [(result["level"], result["ruleId"]) for result in results] == [
        ("error", "broken"),
        ("note", "fixed"),
    ]
    assert "returned.py" in results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    atom = "{http://www.w3.org/2005/Atom}"
    feed = ET.parse(out / "feed.xml")  # noqa: S314  our own
    entries = feed.getroot().findall(f"{atom}entry")
    assert {entry.findtext(f"{atom}id") for entry in entries} == {
        "urn:difftest:flip:torch:script:returned:2.15.0:2.16.0",
        "urn:difftest:flip:torch:script:mended:2.15.0:2.16.0",
    }
    page = (out / "index.html").read_text()
    assert page.index("torch 2.16.0 breaks") < page.index("torch 2.16.0 fixes")
    assert "2.15.0: the fault is there" in page
    assert "<td>3</td>" in page


def test_a_watch_whose_time_is_over_says_so(
    tmp_path: Path, known: Sequence[KnownFault], places: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "read_faults", lambda: known[:3])
    given = [str(tmp_path / "out"), "--release", "torch==2.16.0", "--sample", "0", "--budget", "0.001s"]
    done = CliRunner().invoke(command.command, given, standalone_mode=False)
    assert done.return_value == 3, done.output
    assert done.output.endswith("the time was over before everything was tried; the same command goes on\n")


def test_cases_run_on_the_newest_release_of_the_list_too_and_are_compared(
    tmp_path: Path, places: list[Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_case = next(one for one in faults.read_faults() if one.name == "conv3d_on_dtensor")
    states = {
        "": CaseState(state="fixed"),
        "new": CaseState(state="alive", shown="torch_dtensor-a-b-00000000"),
    }

    @contextmanager
    def no_cluster(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(cut_at=lambda _: None, campaign=lambda *_: None)

    def place(release: Release, *_: object) -> ReleasePython:
        places.append(release)
        return ReleasePython(python=sys.executable, environment="new" if release == NEW else "")

    monkeypatch.setattr(watch, "on_cluster", no_cluster)
    monkeypatch.setattr(watch, "until", lambda campaign, _: campaign)
    monkeypatch.setattr(watch, "oracle_once", lambda campaign: campaign)
    monkeypatch.setattr(watch, "place", place)
    monkeypatch.setattr(watch, "case_state", lambda _, __, backend: states[backend.partition("@")[2]])
    fault = msgspec.structs.replace(with_case, releases={"2.9.0": "alive", "2.15.0": "alive"})
    alone = KnownScript(text="print('expected 1, actual 2')")
    monkeypatch.setattr(KnownFault, "shown_by", alone)
    request = watch.Watch(folder=tmp_path, releases=(NEW,), faults=[fault], sample=1, say=lambda _: None)
    result = watch.watch(request)
    assert [str(one) for one in places] == ["torch 2.16.0", "torch 2.15.0"]
    assert [(str(flip.became), flip.before.release) for flip in result.flips] == [("broken", "2.15.0")]
    scripts = [(one.release, one.state) for one in result.tried if one.kind == "script"]
    assert scripts == [("2.15.0", "alive"), ("2.16.0", "alive")], (
        "the list has what the scripts say before it"
    )
    assert result.flips[0].after.words == "differs: torch_dtensor-a-b-00000000"


def test_the_releases_to_try_are_newer_than_the_list_and_of_nightly_builds_the_last() -> None:
    nightly = ("2.17.0.dev20270102", "2.17.0.dev20270101")
    available = {"torch": ("2.9.0", NEWEST["torch"], "2.16.0", *nightly), "jaxlib": ("0.12.1", "0.12.0.1")}
    assert [str(one) for one in newer(("torch", "jaxlib", "torchax"), available)] == [
        "torch 2.16.0",
        "torch 2.17.0.dev20270102",
        "jaxlib 0.12.1",
    ]


def test_releases_come_from_the_package_index_of_every_python_or_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"": ("0.10.2",), "3.12": ("0.10.2", "0.12.1")}
    monkeypatch.setattr(index, "releases", lambda _, python="", address="": there.get(python, ()))
    assert in_index(("jaxlib",)) == {"jaxlib": ("0.10.2", "0.12.1")}
    file = tmp_path / "versions.toml"
    file.write_text('jax = ["0.12.1"]\ntorch = ["2.16.0"]\n')
    assert in_file(file) == {"jaxlib": ("0.12.1",), "torch": ("2.16.0",)}
    for text in ("numpy = ['1']", "torch = '2.16.0'", "torch = "):
        file.write_text(text)
        with pytest.raises(UsageError, match="file of versions"):
            in_file(file)


def test_a_release_is_named_with_its_package() -> None:
    assert parsed("jax==0.12.1") == parsed("jaxlib==0.12.1")
    for wrong in ("torch", "torch==", "numpy==1"):
        with pytest.raises(UsageError, match=r"allowed: torch==VERSION, .*, jax==VERSION"):
            parsed(wrong)


def test_a_state_is_said_in_words() -> None:
    case = Tried(package="torch", release="1", kind="case", name="c", state="alive", shown="a-b")
    assert case.words == "differs: a-b"
