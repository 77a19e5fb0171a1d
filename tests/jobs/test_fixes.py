"""`difftest validate`: cases near a fault's, where a fix is, and the verdict on it."""

import dataclasses
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from difftest.cases.case import Case
from difftest.commands.validate import _print as print_result
from difftest.findings.faults import read_faults
from difftest.ground import made_environments
from difftest.ground.errors import UsageError
from difftest.jobs.fixes import fault_cases, replacement
from difftest.jobs.fixes.neighbours import neighbours
from difftest.jobs.fixes.verdict import CasePair, Fix, Outcome, Role, validated
from difftest.jobs.installed import environments, index, pythons
from difftest.jobs.watch.case_states import CaseState

FIXED = next(fault for fault in read_faults() if fault.releases.get("2.15.0") == "fixed" and fault.examples)

OURS, OTHERS, NOBODYS = "ours", "another.py", ""
RIGHT = CaseState(state="fixed")
UNCLEAR = CaseState(state="unclear", note="the oracle failed")


def wrong(shown: str) -> CaseState:
    return CaseState(state="alive", shown=shown)


def pair(role: Role, before: str | None, after: str | None) -> CasePair:
    """A case by the faults that it shows before a fix and with it; None where it is right."""
    return CasePair(
        role=role,
        words="",
        case="",
        before=RIGHT if before is None else wrong(f"a-{before}"),
        after=RIGHT if after is None else wrong(f"a-{after}"),
        fault_before=before or "",
        fault_after=after or "",
        subject=OURS,
    )


GONE, LEFT = pair(Role.NEIGHBOUR, OURS, None), pair(Role.NEIGHBOUR, OURS, OURS)
OWN = pair(Role.CASE, OURS, None)


@pytest.mark.parametrize(
    ("pairs", "fix"),
    [
        ((OWN,), Fix.FIXED),
        ((OWN, GONE, pair(Role.NEIGHBOUR, None, None)), Fix.FIXED),
        ((OWN, GONE, LEFT), Fix.PARTLY),
        ((OWN, GONE, pair(Role.NEIGHBOUR, OURS, NOBODYS)), Fix.PARTLY),
        ((OWN, GONE, pair(Role.NEIGHBOUR, OURS, OTHERS)), Fix.FIXED),
        ((OWN, LEFT, pair(Role.NEIGHBOUR, None, None)), Fix.OVERFITTED),
        ((pair(Role.CASE, OURS, OURS), GONE), Fix.NOT_FIXED),
        ((pair(Role.CASE, OURS, NOBODYS), GONE), Fix.PARTLY),
        ((pair(Role.CASE, OURS, OTHERS), GONE), Fix.FIXED),
        ((pair(Role.CASE, OURS, OTHERS), LEFT), Fix.PARTLY),
        ((pair(Role.CASE, OURS, OTHERS),), Fix.UNDECIDED),
        ((pair(Role.CASE, None, None), GONE), Fix.UNDECIDED),
    ],
)
def test_neighbours_that_showed_the_fault_decide_how_far_a_fix_goes(
    pairs: Sequence[CasePair], fix: Fix
) -> None:
    assert validated(pairs).fix is fix


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (None, NOBODYS, Outcome.BROKE),
        (None, OURS, Outcome.BROKE),
        (OTHERS, OTHERS, Outcome.AS_BEFORE),
        (OTHERS, None, Outcome.BESIDE),
        (None, None, Outcome.AS_BEFORE),
    ],
)
def test_a_case_that_was_right_and_is_wrong_was_broken(
    before: str | None, after: str | None, outcome: Outcome
) -> None:
    result = validated([OWN, pair(Role.COUNTEREXAMPLE, before, after)])
    assert result.fix is Fix.FIXED
    assert result.pairs[1].outcome is outcome
    assert len(result.broken) == (outcome is Outcome.BROKE)


def test_a_run_without_a_verdict_decides_nothing() -> None:
    lost = CasePair(
        role=Role.CASE,
        words="",
        case="",
        before=wrong("a"),
        after=UNCLEAR,
        fault_before=OURS,
        fault_after="",
        subject=OURS,
    )
    assert validated([lost]).fix is Fix.UNDECIDED
    assert lost.outcome is Outcome.UNDECIDED


def test_neighbours_differ_in_one_thing_each_and_are_valid() -> None:
    case = Case.from_json(FIXED.examples[0].case)
    near = neighbours(case, 12)
    assert len({one.case.id for one in near} | {case.id}) == len(near) + 1
    assert {one.kind for one in near} >= {"dtype", "ranks"}
    for one in near:
        assert Case.from_json(one.case.to_json()) == one.case
        if one.kind == "dtype":
            assert one.case.layout == case.layout
        if one.kind == "size":
            assert one.case.layout.mesh == case.layout.mesh
    assert neighbours(case, 3) == near[:3]


def test_a_known_fault_is_read_with_its_case_and_others_of_its_backend() -> None:
    subject = fault_cases.read(FIXED.name)
    case, backend = subject.cases[0]
    assert case.to_json().decode() == FIXED.examples[0].case
    others = fault_cases.counterexamples(subject, case, backend, 5)
    assert len(others) == 5
    assert case not in others


def test_a_fault_without_a_case_is_refused() -> None:
    bare = next(fault for fault in read_faults() if not fault.examples)
    with pytest.raises(UsageError, match=r"has no case, only its script; allowed: "):
        fault_cases.read(bare.name)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of environments, with one called `old`, in which a package has a function."""
    made = tmp_path / "made"
    monkeypatch.setenv(made_environments.VARIABLE, str(made))
    packages = made / "old" / "lib" / "python3.11" / "site-packages" / "pack"
    packages.mkdir(parents=True)
    (packages / "code.py").write_text("def one():\n    return 2\n")
    (packages / "rest.py").write_text("rest = 1\n")
    (made / "old" / "bin").mkdir()
    (made / "old" / "bin" / "python").symlink_to(sys.executable)
    (made / "old" / made_environments.COMPLETE).write_text("pack==1")
    return made


PATCH = """diff --git a/pack/code.py b/pack/code.py
--- a/pack/code.py
+++ b/pack/code.py
@@ -1,2 +1,2 @@
 def one():
-    return 2
+    return 1
"""


def test_a_patch_is_laid_over_a_copy_of_an_environment(home: Path, tmp_path: Path) -> None:
    patch = tmp_path / "fix.patch"
    patch.write_text(PATCH)
    messages = list[str]()
    name = replacement.environment(str(patch), "old", messages.append)
    assert name in made_environments.names()
    of = "lib/python3.11/site-packages/pack"
    assert "return 1" in (home / name / of / "code.py").read_text()
    assert "return 2" in (home / "old" / of / "code.py").read_text()
    assert (home / name / of / "rest.py").samefile(home / "old" / of / "rest.py"), "no second copy"
    assert len(messages) == 1
    assert replacement.environment(str(patch), "old", messages.append) == name
    assert len(messages) == 1, "it is made once"


def test_a_patch_that_does_not_fit_leaves_no_environment(home: Path, tmp_path: Path) -> None:
    patch = tmp_path / "fix.diff"
    patch.write_text(PATCH.replace("return 2", "return 3"))
    with pytest.raises(UsageError, match="does not fit the packages"):
        replacement.environment(str(patch), "old", print)
    assert made_environments.names() == ("old",)


def test_the_tests_of_a_patch_are_left_out(home: Path, tmp_path: Path) -> None:
    patch, messages = tmp_path / "fix.patch", list[str]()
    patch.write_text(PATCH + PATCH.replace("pack/code.py", "test/test_code.py"))
    name = replacement.environment(str(patch), "old", messages.append)
    packages = home / name / "lib/python3.11/site-packages"
    assert "return 1" in (packages / "pack" / "code.py").read_text()
    assert not (packages / "test").exists()
    assert messages[0].endswith("without test/test_code.py, which no package has")


def test_a_module_of_one_file_is_patched_too(home: Path, tmp_path: Path) -> None:
    of, patch = "lib/python3.11/site-packages/module.py", tmp_path / "fix.patch"
    (home / "old" / of).write_text("def one():\n    return 2\n")
    patch.write_text(PATCH.replace("pack/code.py", "module.py"))
    name = replacement.environment(str(patch), "old", print)
    assert "return 1" in (home / name / of).read_text()
    assert "return 2" in (home / "old" / of).read_text()


def test_a_patch_of_tests_alone_is_refused(home: Path, tmp_path: Path) -> None:
    patch = tmp_path / "fix.patch"
    patch.write_text(PATCH.replace("pack/code.py", "test/test_code.py"))
    with pytest.raises(UsageError, match="changes no file of a package"):
        replacement.environment(str(patch), "old", print)


@pytest.mark.parametrize("name", ["pack/code.cpp", "../../outside.py", "/etc/hosts.py"])
def test_a_patch_changes_python_files_of_packages_alone(home: Path, tmp_path: Path, name: str) -> None:
    patch = tmp_path / "fix.patch"
    patch.write_text(PATCH.replace("pack/code.py", name).replace("b//", "/"))
    with pytest.raises(UsageError, match="allowed: Python files of packages"):
        replacement.environment(str(patch), "old", print)


def test_a_wheel_takes_the_place_of_its_package(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, room = list[tuple[str, ...]](), list[Path]()
    monkeypatch.setattr(
        environments, "make", lambda _, requirements, *_more: made.append(tuple(requirements))
    )
    monkeypatch.setattr(environments, "require_space", lambda _, folder: room.append(folder))
    monkeypatch.setattr(replacement, "everything", lambda chosen: chosen.requirements)
    monkeypatch.setattr(index, "releases", lambda *_: ())
    wheel = tmp_path / "torch_xla-2.10.0+fixed-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"a wheel")
    name = replacement.environment(str(wheel), "", lambda _: None)
    assert made[0][:2] == ("torch==2.10.0", str(wheel))
    assert re.fullmatch("torch_xla_2.10.0_[0-9a-f]{8}", name)
    assert room == [home / name]
    with pytest.raises(UsageError, match="cannot be used"):
        replacement.environment(str(tmp_path / "torch.whl"), "", print)


def test_a_wheel_that_needs_a_later_python_gets_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[tuple[Path, tuple[str, ...]]]()
    monkeypatch.setattr(
        environments,
        "make",
        lambda _folder, requirements, python, _address: made.append((python, tuple(requirements))),
    )
    monkeypatch.setattr(environments, "require_space", lambda *_: None)
    monkeypatch.setattr(replacement, "everything", lambda chosen: chosen.requirements)
    monkeypatch.setattr(index, "running", lambda: "3.11")
    monkeypatch.setattr(
        index, "releases", lambda _package, python, _address: ("2.16.0",) * (python == "3.12")
    )
    monkeypatch.setattr(pythons, "installed", lambda least: tmp_path / f"python{least}")
    wheel = tmp_path / "torch-2.16.0-cp312-cp312-linux_x86_64.whl"
    wheel.write_bytes(b"a wheel")
    name = replacement.environment(str(wheel), "", lambda _: None)
    ((python, requirements),) = made
    assert python == tmp_path / "python3.12"
    assert str(wheel) in requirements
    monkeypatch.setattr(
        made_environments, "requirements", lambda folder: requirements if folder.name == name else ()
    )
    replacement.environment(str(wheel), "", pytest.fail)
    assert len(made) == 1, "it is made once"


def test_a_fix_is_an_environment_this_python_or_something_that_is_named(home: Path) -> None:
    assert replacement.environment("old", "", print) == "old"
    assert replacement.environment("here", "", print) == ""
    with pytest.raises(
        UsageError, match=r"no environment is called 'other'; allowed: an environment, a release"
    ):
        replacement.environment("other", "", print)


def test_what_is_no_fault_and_no_finding_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"'nothing' is no known fault and no finding; known faults are "):
        fault_cases.read("nothing")


def test_undecided_cases_are_counted_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    lost = dataclasses.replace(pair(Role.NEIGHBOUR, None, None), words="one", before=UNCLEAR, after=UNCLEAR)
    print_result("the_fault", validated([OWN, GONE, lost, lost]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "the_fault: fixed. Of 2 cases that showed it, 2 agree now."
    assert lines[1:] == ["  2 undecided, such as one: the oracle failed"]
