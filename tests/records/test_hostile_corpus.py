"""A corpus from elsewhere is inert.

Its links lead no write out of it and no read into a draft; its damaged records cost only themselves; its
arrays take no more memory than its files have bytes.
"""

import json
import os
import shutil
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
import sample_bundles
from command_line import Result, command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from machines import NUMBERED_CASES, a_campaign, machine_with_two_faults, run_to_the_end
from samples import a_case, oracle

from difftest.campaign.run import run
from difftest.ground.errors import UsageError
from difftest.jobs.campaign import storage
from difftest.records import disk, index, resume, traces
from difftest.records.corpus import CORPUS, DAMAGED, FINDING, LOCK, OBSERVATIONS, REDUCED, Corpus
from difftest.records.damaged import set_aside
from difftest.reduce.journal import ReductionJournal

if TYPE_CHECKING:
    from collections.abc import Callable

TREASURE = b"not to be touched\n"
LINES = "one.jsonl"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a campaign with two findings."""
    out = tmp_path_factory.mktemp("whole")
    run_to_the_end(out / CORPUS)
    return out


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """A copy of that folder, beside a file and a folder that nothing may write to."""
    shutil.copytree(whole, tmp_path / "out")
    (tmp_path / "elsewhere").mkdir()
    for file in (tmp_path / "treasure", tmp_path / "elsewhere" / "treasure"):
        file.write_bytes(TREASURE)
    return tmp_path / "out"


def assert_nothing_written_elsewhere(out: Path) -> None:
    above = out.parent
    assert sorted(str(f.relative_to(above)) for f in above.glob("*")) == ["elsewhere", "out", "treasure"]
    assert [file.name for file in (above / "elsewhere").iterdir()] == ["treasure"]
    for file in (above / "treasure", above / "elsewhere" / "treasure"):
        assert file.read_bytes() == TREASURE


def places_of(root: Path) -> list[str]:
    """The files and folders of a corpus that could be links, as paths in it; none of them need exist."""
    name = Corpus(root).fingerprints()[0]
    names = (FINDING, "case.json", REDUCED, "reproducer.py", "issue.md", "artifacts")
    runs = (f"{OBSERVATIONS}/{file}" for file in (LINES, ".one.lock", "one.json", f"{LINES}.{DAMAGED}"))
    return [LOCK, OBSERVATIONS, DAMAGED, name, *runs, *(f"{name}/{file}" for file in names)]


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.data())
def test_a_link_anywhere_in_a_corpus_is_refused_and_not_followed(
    whole: Path, tmp_path: Path, data: st.DataObject
) -> None:
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    shutil.copytree(whole, out := tmp_path / "out")
    (tmp_path / "elsewhere").mkdir(exist_ok=True)
    for file in (tmp_path / "treasure", tmp_path / "elsewhere" / "treasure"):
        file.write_bytes(TREASURE)
    corpus = Corpus(out / CORPUS)
    link = corpus.root / data.draw(st.sampled_from(places_of(corpus.root)))
    target = data.draw(st.sampled_from(("treasure", "elsewhere", "elsewhere/made")))
    shutil.rmtree(link) if link.is_dir() else link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / target)
    attempts = (
        lambda: set_aside(corpus),
        lambda: command("report", out),
    )
    for attempt in attempts:
        try:
            result = attempt()
        except UsageError as error:
            message = str(error)
        else:
            assert isinstance(result, Result)
            assert result.status == 2
            message = result.output
        assert str(link) in message
        assert "is a link or a special file" in message
    assert_nothing_written_elsewhere(out)


def appended(file: Path) -> None:
    """Writes to a journal that became `file` after it was read."""
    journal = ReductionJournal(file.with_name("none"))
    journal._file = file  # noqa: SLF001
    journal.add("0" * 12, shows=True)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("write", ["lock", "lines", "campaign", "journal"])
def test_no_write_follows_a_link_even_where_the_corpus_was_not_checked(
    out: Path, write: str, hard: bool
) -> None:
    corpus = Corpus(out / CORPUS)
    observation = next(corpus.observations())
    link = {
        "lock": corpus.root / LOCK,
        "lines": corpus.lines("one"),
        "campaign": corpus.root / OBSERVATIONS / ".one.lock",
        "journal": corpus.root / "reduction.jsonl",
    }[write]
    link.unlink(missing_ok=True)
    if hard:
        link.hardlink_to(out.parent / "treasure")
    else:
        link.symlink_to(out.parent / "nothing")
    writes: dict[str, Callable[[], object]] = {
        "lock": lambda: ExitStack().enter_context(corpus.locked()),
        "lines": lambda: corpus.observe(observation),
        "campaign": lambda: ExitStack().enter_context(resume.resumed(corpus, "one")),
        "journal": lambda: appended(link),
    }
    with pytest.raises(UsageError, match=r"has 2 names \(hard links\)" if hard else "is a link or a special"):
        writes[write]()
    assert_nothing_written_elsewhere(out)


def test_a_replaced_link_is_itself_replaced(out: Path) -> None:
    report = out / "report.md"
    report.symlink_to(out.parent / "treasure")
    disk.replace_file(report, b"new")
    assert (report.is_symlink(), report.read_bytes()) == (False, b"new")
    assert_nothing_written_elsewhere(out)


def test_a_file_that_cannot_be_replaced_leaves_no_unfinished_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        disk.replace_file(tmp_path / "folder", b"new")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("kind", ["finding", "corpus", "pipe"])
def test_commands_refuse_a_linked_finding_a_linked_corpus_and_a_pipe(out: Path, kind: str) -> None:
    root = out / CORPUS
    name = Corpus(root).fingerprints()[0]
    match kind:
        case "finding":
            shutil.move(root / name, out.parent / "elsewhere" / name)
            (root / name).symlink_to(out.parent / "elsewhere" / name)
            result = command("draft", root / name)
            assert not (out.parent / "elsewhere" / name / "issue.md").exists()
        case "corpus":
            shutil.move(root, out / "moved")
            root.symlink_to(out / "moved")
            result = command("report", out)
        case _:
            os.mkfifo(root / OBSERVATIONS / "two.jsonl")
            result = command("triage", out)
    assert result.status == 2
    assert "is a link or a special file" in result.output


@pytest.mark.parametrize("place", ["cases", "runs"])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_bundle_with_a_link_or_a_pipe_is_refused_and_not_waited_for(
    tmp_path: Path, place: str, kind: str
) -> None:
    root = sample_bundles.recorded(tmp_path / "bundle", "ddp", repeats=1)
    file = min((root / place).iterdir())
    file.unlink()
    os.mkfifo(file) if kind == "pipe" else file.symlink_to("/dev/zero")
    result = command("compare", root, "--out", tmp_path / "out")
    assert result.status == 2
    assert f"{str(file)!r} is a link or a special file" in result.output


def test_a_script_that_is_too_large_is_not_read(out: Path) -> None:
    folder = out / CORPUS / Corpus(out / CORPUS).fingerprints()[0]
    (folder / "reproducer.py").touch()
    os.truncate(folder / "reproducer.py", 2**33)
    for arguments in (("draft", folder), ("bisect", folder, "--versions", "1,2")):
        result = command(*arguments)
        assert result.status == 2
        assert "is larger than 1048576 bytes" in result.output


def test_an_index_of_another_user_is_not_read(out: Path) -> None:
    """Only where the tests run as root, as in containers, can they make a file of another user."""
    if os.geteuid():
        pytest.skip("needs root")
    lines = Corpus(out / CORPUS).lines("one")
    assert [part.index for part in index.parts(lines)] == [None]
    key, size = index._key(lines), lines.stat().st_size  # noqa: SLF001
    forged = lines.with_name(f".one.index.{key}.0-{size}.3.{'0' * 32}.npz")
    forged.write_bytes(b"")
    assert index._Index(lines).parts  # noqa: SLF001
    os.chown(forged, 12345, 12345)
    assert not index._Index(lines).parts  # noqa: SLF001


def test_a_draft_quotes_no_linked_file(out: Path) -> None:
    root = out / CORPUS
    folder = root / Corpus(root).fingerprints()[0]
    (folder / "reproducer.py").symlink_to(out.parent / "treasure")
    result = command("draft", folder)
    assert result.status == 2
    assert not (folder / "issue.md").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 10**5, b"\xff", b"{}", b'{"schema": 2}'])
@pytest.mark.parametrize("name", [FINDING, "case.json"])
def test_a_damaged_finding_is_set_aside_and_costs_no_other(out: Path, name: str, content: bytes) -> None:
    corpus = Corpus(out / CORPUS)
    bad, good = corpus.fingerprints()
    (corpus.root / bad / name).write_bytes(content)
    result = command("report", out, "--format", "summary")
    assert result.status == 0
    assert result.output.count("damaged record") == 1
    assert str(corpus.root / bad / name) in result.output
    assert corpus.fingerprints() == (good,)
    assert (corpus.root / DAMAGED / bad / name).read_bytes() == content
    assert "damaged record" not in command("report", out, "--format", "summary").output, "it is reported once"


def test_the_campaign_finds_again_what_was_damaged_and_damage_is_kept_twice(out: Path) -> None:
    corpus = Corpus(out / CORPUS)
    names = corpus.fingerprints()
    for kept in (names[0], f"{names[0]}.1"):
        (corpus.root / names[0] / FINDING).write_bytes(b"")
        assert [damage.kept for damage in set_aside(corpus)] == [corpus.root / DAMAGED / kept]
        corpus.lines("one").unlink()
        list(run(a_campaign(corpus.root, machine_with_two_faults()), NUMBERED_CASES))
        assert corpus.fingerprints() == names


def test_a_damaged_reduced_case_is_set_aside_alone(out: Path) -> None:
    corpus = Corpus(out / CORPUS)
    name = corpus.fingerprints()[0]
    corpus.save_reduced(name, a_case(), ())
    (corpus.root / name / REDUCED).write_bytes(b"{")
    assert [damage.kept for damage in set_aside(corpus)] == [corpus.root / DAMAGED / f"{name}.{REDUCED}"]
    assert corpus.simplest(name) == corpus.case(name)


@pytest.mark.parametrize("name", [FINDING, "case.json", LINES])
def test_a_record_of_a_newer_version_still_stops_the_command(out: Path, name: str) -> None:
    corpus = Corpus(out / CORPUS)
    newer = corpus.root / (OBSERVATIONS if name == LINES else corpus.fingerprints()[0]) / name
    newer.write_text(json.dumps({"schema": 99}) + "\n")
    result = command("report", out)
    assert (result.status, newer.exists()) == (2, True)
    assert "newer version" in result.output


def test_damaged_lines_of_a_running_campaign_stay(out: Path) -> None:
    corpus = Corpus(out / CORPUS)
    with resume.resumed(corpus, "one"):
        with corpus.lines("one").open("ab") as lines:
            lines.write(b"{\n")
        before = corpus.lines("one").read_bytes()
        assert [damage.kept for damage in set_aside(corpus)] == [None]
        assert corpus.lines("one").read_bytes() == before
    (damage,) = set_aside(corpus)
    assert damage.kept == corpus.lines("one").with_name(f"{LINES}.{DAMAGED}")


def test_lines_and_files_are_on_disk_when_the_calls_return(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    corpus = Corpus(out / CORPUS)
    corpus.observe(next(corpus.observations()))
    assert synced == [str(corpus.lines("one"))]
    synced.clear()
    corpus.put(next(corpus.findings()))
    folder = corpus.root / corpus.fingerprints()[0]
    assert synced[0].startswith(str(folder / f".{FINDING}."))
    assert synced[1:] == [str(folder)]


@pytest.mark.parametrize("how", ["compressed", "overlapping"])
def test_arrays_that_expand_are_refused_before_they_are_unpacked(tmp_path: Path, how: str) -> None:
    traces.save(tmp_path / "run", oracle(a_case()))
    file = tmp_path / "run.npz"
    if how == "compressed":
        with (
            zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as packed,
            packed.open("more.npy", "w") as entry,
        ):
            np.save(entry, np.zeros(10**6, np.float32))
    else:
        with zipfile.ZipFile(file, "a") as packed:  # more names for the same bytes
            packed._didModify = True  # type: ignore[attr-defined]  # noqa: SLF001  as an attacker does
            packed.filelist += [packed.filelist[0]] * 50
    size = file.stat().st_size
    with pytest.raises(UsageError, match=rf"run\.npz has {size} bytes and unpacks to \d+"):
        traces.load(tmp_path / "run")


def test_tensors_that_share_an_array_or_are_too_large_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would make a small file take much memory: compared tensors are float64, and one on every rank."""
    traces.save(tmp_path / "run", oracle(a_case()))
    file = tmp_path / "run.json"
    run_ = json.loads(file.read_bytes())
    first, second = run_["steps"][0][:2]
    pieces, first["pieces"] = first["pieces"], second["pieces"]
    file.write_text(json.dumps(run_))
    with pytest.raises(UsageError, match=r"a piece is at \d+ of float64; the one before it ends at 0"):
        traces.load(tmp_path / "run")
    first["pieces"] = pieces
    file.write_text(json.dumps(run_))
    traces.load(tmp_path / "run")
    monkeypatch.setattr(traces, "MOST_NUMBERS", 3)
    with pytest.raises(UsageError, match=r"a tensor has \d+ elements; allowed: 3"):
        traces.load(tmp_path / "run")


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_a_damaged_record_in_storage_is_moved_there_too(out: Path, scheme: str) -> None:
    files = pytest.importorskip("fsspec", reason="needs fsspec, which torch brings").filesystem(scheme)
    files.put(str(out), str(out), recursive=True)
    address, name = f"{scheme}://{out}", Corpus(out / CORPUS).fingerprints()[0]
    files.pipe_file(f"{out}/{CORPUS}/{name}/{FINDING}", b"{")
    for damaged in (1, 0):
        with storage.opened(address) as output:
            output.prepared_corpus()
            assert output.damaged == [damaged]
    assert not files.exists(f"{out}/{CORPUS}/{name}/{FINDING}")
    assert files.cat_file(f"{out}/{CORPUS}/{DAMAGED}/{name}/{FINDING}") == b"{"


def test_a_hard_link_in_storage_is_replaced_and_not_written_to(out: Path) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec, which torch brings")
    (out / "report.md").hardlink_to(out.parent / "treasure")
    with storage.opened(f"file://{out}") as output:
        (output.folder / "report.md").write_bytes(b"new")
    assert (out / "report.md").read_bytes() == b"new"
    assert_nothing_written_elsewhere(out)


@pytest.mark.long
def test_a_damaged_line_is_counted_with_what_the_command_prints(out: Path) -> None:
    corpus = Corpus(out / CORPUS)
    with corpus.lines("one").open("ab") as lines:
        lines.write(b"{\n" + b"x" * 9 + b"\n")
    result = command("report", out, "--format", "summary")
    assert (result.status, result.output.count("damaged record")) == (0, 2)
    assert json.loads(command("report", out, "--json").output)["damaged"] == 0
    with corpus.lines("one").open("ab") as lines:
        lines.write(b"{\n")
    assert '"damaged": 1' in command("report", out, "--json").output
    assert all(msgspec.json.decode(line) for line in corpus.lines("one").read_bytes().splitlines())


@pytest.mark.parametrize("json", [False, True])
def test_triage_counts_damaged_records(out: Path, *, json: bool) -> None:
    corpus = Corpus(out / CORPUS)
    for name in corpus.fingerprints():
        (corpus.root / name / FINDING).write_bytes(b"{")
    result = command("triage", out, *["--json"] * json)
    assert result.output.count("damaged record:") == 2
    assert ('"damaged": 2' if json else "0 findings: nothing to run; 2 damaged records\n") in result.output
    again = command("triage", out, *["--json"] * json).output
    assert ('"damaged": 0' in again) if json else ("damaged" not in again)


def test_a_campaign_runs_the_cases_of_damaged_lines_again(out: Path) -> None:
    corpus = Corpus(out / CORPUS)
    before = sorted(corpus.observations(), key=lambda run: (run.index, run.backend, run.started))
    lines = corpus.lines("one").read_bytes().splitlines(keepends=True)
    corpus.lines("one").write_bytes(b"".join([b"{\n", *lines[1:]]))
    assert len(set_aside(corpus)) == 1
    progress = run_to_the_end(corpus.root)
    assert [one.result.index for one in progress] == [before[0].index]
    assert sorted((run.index, run.backend) for run in corpus.observations()) == [
        (run.index, run.backend) for run in before
    ]
    assert [finding.hits for finding in corpus.findings()] == [2, 4]
