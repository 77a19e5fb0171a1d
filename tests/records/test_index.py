"""The index of a campaign's lines: it changes no result, whatever happens to it or to the lines."""

import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from machines import NUMBERED_CASES, run_to_the_end, timeless_tables
from sample_findings import a_measurement, an_observation

from difftest.records import columns, disk, index, observation
from difftest.records.corpus import Corpus
from difftest.records.damaged import set_aside
from difftest.records.observation import Observation, read_observations
from difftest.records.resume import CampaignRecord, resumed

CASES = 40
BACKENDS = ("oracle", "torch_ddp", "xla_spmd", "xla_ddp")
INDEXED = ".first.index.*.npz"


def a_case_of_runs(number: int) -> tuple[Observation, ...]:
    """The runs of a case, of which every third diverges, and one comparison that is not supported."""
    apart: dict[str, Any] = {
        "verdict": "diverge",
        "fingerprints": (f"xla-loss-mismatch-0000000{number % 9}",),
    }
    measured: dict[str, Any] = {
        "measurements": (a_measurement(number), a_measurement(other_error=2.0, tensor="0.weight"))
    }
    return (
        an_observation(number, "oracle", "oracle", side="oracle", runs=4),
        an_observation(number, runs=4, **measured),
        an_observation(number, "xla_spmd", runs=4, **measured, **(apart if number % 3 == 0 else {})),
        an_observation(number, "xla_ddp", "unsupported", runs=4, reason="no path é \"'"),
    )


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "PART_BYTES", 10_000)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """A corpus with the lines of `CASES` cases, which were indexed while they were recorded."""
    corpus = Corpus(tmp_path / "corpus")
    corpus.prepare()
    with resumed(corpus, "first"):
        for number in range(CASES):
            corpus.observe(*a_case_of_runs(number))
    return corpus


def recorded(corpus: Corpus) -> CampaignRecord:
    with resumed(corpus, "first") as record:
        return record


def from_lines(corpus: Corpus) -> CampaignRecord:
    """What every line of the campaign adds up to, read without the index."""
    record = CampaignRecord()
    for run in read_observations(corpus.lines("first")):
        record.add(columns.Columns.of([run]))
    return record


def files(corpus: Corpus) -> list[Path]:
    """The index files of the campaign."""
    return sorted(corpus.lines("first").parent.glob(INDEXED))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that are decoded from now on."""
    lines = list[str]()
    real = observation.read_observation

    def read(text: bytes, where: str) -> Observation:
        lines.append(where)
        return real(text, where)

    monkeypatch.setattr(observation, "read_observation", read)
    return lines


def test_a_campaign_indexes_its_lines_while_it_records_them(corpus: Corpus, decoded: list[str]) -> None:
    assert len(files(corpus)) >= 4
    record = recorded(corpus)
    assert 0 < len(decoded) < 4 * CASES / 3, "only the last lines are decoded"
    assert record == from_lines(corpus)
    assert (len(record.cases), record.runs, len(record.sightings)) == (CASES, 4 * CASES, 3)


def test_nothing_is_indexed_of_a_small_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    run_to_the_end(tmp_path)
    assert [file.name for file in (tmp_path / "observations").iterdir() if "index" in file.name] == []


def test_the_columns_of_an_index_are_those_of_its_lines(corpus: Corpus) -> None:
    for part in index.parts(corpus.lines("first")):
        lines = [line for line in observation.read_lines(part.file, part.start) if line.end <= part.end]
        runs = [line.run for line in lines if isinstance(line.run, Observation)]
        expected = columns.Columns.of(runs, [line.end - part.start for line in lines])
        indexed = part.columns()
        for name in columns.NAMES:
            ours, theirs = indexed.by_name[name], expected.by_name[name]
            if isinstance(ours, columns.Texts):
                assert isinstance(theirs, columns.Texts)
                assert (ours.distinct, ours.codes.tolist()) == (theirs.distinct, theirs.codes.tolist())
            else:
                assert not isinstance(theirs, columns.Texts)
                assert ours.dtype == theirs.dtype
                assert np.array_equal(ours, theirs, equal_nan=name.endswith("error"))


def overwritten(file: Path) -> None:
    """Another value in the middle of the lines, without a change of their length."""
    content = file.read_bytes()
    place = content.index(b'"verdict":"diverge"', len(content) // 3)
    with file.open("r+b") as opened:
        opened.seek(place)
        opened.write(b'"verdict":"aggree!"')


def shortened(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:8], *lines[12:]]))


def replaced(file: Path) -> None:
    others = (msgspec.structs.replace(run, index=run.index + 7) for run in list(read_observations(file)))
    file.write_bytes(b"".join(msgspec.json.encode(run) + b"\n" for run in others))


@pytest.mark.parametrize("change", [overwritten, shortened, replaced])
@pytest.mark.parametrize("checked", [False, True])
def test_changed_lines_are_read_again(
    corpus: Corpus, change: Callable[[Path], None], *, checked: bool
) -> None:
    before = recorded(corpus) if checked else None
    change(corpus.lines("first"))
    assert recorded(corpus) == from_lines(corpus) != before
    assert recorded(corpus) == from_lines(corpus)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-200])


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for place in range(0, len(content), 97):
        content[place] ^= 0xFF
    file.write_bytes(content)


def without_a_column(file: Path) -> None:
    np.savez(file, index=np.zeros(3))


def made_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def made_a_link(file: Path) -> None:
    file.unlink()
    file.symlink_to("/nowhere")


@pytest.mark.parametrize(
    "damage", [Path.unlink, emptied, cut_off, flipped, without_a_column, made_a_folder, made_a_link]
)
@pytest.mark.parametrize("checked", [False, True])
def test_a_damaged_index_costs_nothing_but_time_and_is_made_again(
    corpus: Corpus, damage: Callable[[Path], None], decoded: list[str], *, checked: bool
) -> None:
    if checked:
        recorded(corpus)
    for file in files(corpus)[1:3]:
        damage(file)
    assert recorded(corpus) == from_lines(corpus)
    last = sum(part.count for part in index.parts(corpus.lines("first")) if not part.index)
    decoded.clear()
    recorded(corpus)
    assert damage is made_a_folder or len(decoded) == last


def test_the_index_of_a_corpus_from_elsewhere_is_never_opened(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Corpus(tmp_path / "copied")
    shutil.copytree(corpus.root, elsewhere.root)
    brought, opened = files(elsewhere), list[Path]()
    for file in brought:
        file.write_bytes(b"hostile")
    real = np.load

    def load(file: io.BufferedReader, **options: Any) -> Any:  # noqa: ANN401  as numpy has it
        opened.append(Path(f"/proc/self/fd/{file.fileno()}").readlink())
        return real(file, **options)

    monkeypatch.setattr(np, "load", load)
    assert recorded(elsewhere) == from_lines(corpus)
    assert opened
    assert not set(brought) & set(opened)
    assert not set(brought) & set(files(elsewhere)), "its files are deleted, and others are made"
    assert files(elsewhere)
    assert recorded(elsewhere) == from_lines(corpus)


def test_a_corpus_that_nothing_here_has_locked_is_read_without_an_index(corpus: Corpus) -> None:
    (corpus.root / "observations" / ".first.lock").unlink()
    before = files(corpus)
    assert sum(part.count for part in index.parts(corpus.lines("first"))) == 4 * CASES
    assert not any(part.index for part in index.parts(corpus.lines("first")))
    assert files(corpus) == before


def test_the_index_of_another_version_is_made_anew(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(corpus)
    monkeypatch.setattr(index, "VERSION", index.VERSION + 1)
    assert recorded(corpus) == from_lines(corpus)
    assert not set(before) & set(files(corpus))


def test_a_verified_index_is_not_verified_again(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(corpus)
    with monkeypatch.context() as patch:
        patch.delattr(index, "_digest")
        assert recorded(corpus) == from_lines(corpus)
    corpus.observe(*a_case_of_runs(CASES))
    assert recorded(corpus) == from_lines(corpus)


@pytest.mark.parametrize("change", ["lost", "cut off"])
def test_cases_that_have_to_run_again_are_deleted_from_indexed_lines(corpus: Corpus, change: str) -> None:
    file = corpus.lines("first")
    runs = list(read_observations(file))
    if change == "lost":
        runs[4 * 5 + 1] = msgspec.structs.replace(runs[4 * 5 + 1], verdict="lost")
    else:
        del runs[4 * 5 + 1]
    file.write_bytes(b"".join(msgspec.json.encode(run) + b"\n" for run in runs))
    assert {number for number, _ in recorded(corpus).cases} == set(range(CASES)) - {5}
    assert [run for run in runs if run.index != 5] == list(read_observations(file))
    assert recorded(corpus) == from_lines(corpus)


def test_a_damaged_line_among_indexed_ones_is_set_aside(corpus: Corpus) -> None:
    recorded(corpus)
    overwritten(file := corpus.lines("first"))
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"verdict":"aggree!"', b'"verdict":["aggree"'))
    assert len(set_aside(corpus)) == 1
    assert len(from_lines(corpus).cases) == CASES
    assert len(recorded(corpus).cases) == CASES - 1
    assert set_aside(corpus) == ()


def test_a_disk_that_takes_no_index_changes_nothing(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = from_lines(corpus)
    for file in files(corpus):
        file.unlink()

    def full(file: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(index, "replace_file", full)
    corpus.observe(*a_case_of_runs(CASES))
    expected = from_lines(corpus)
    assert recorded(corpus) == expected
    assert files(corpus) == []


class KilledError(BaseException):
    """Stands for SIGKILL."""


def killed_at(steps: Iterator[int], step: int) -> Callable[[Path, bytes], None]:
    def replace(file: Path, content: bytes) -> None:
        if next(steps) == step:
            file.with_name(f".{file.name[:200]}.0").write_bytes(content[: len(content) // 2])
            raise KilledError
        disk.replace_file(file, content)

    return replace


@pytest.mark.long
def test_a_campaign_killed_while_it_writes_its_index_resumes_to_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_to_the_end(tmp_path / "whole")
    monkeypatch.setattr(index, "PART_BYTES", 2000)
    for step in range(100):
        root = tmp_path / str(step)
        with monkeypatch.context() as patch:
            patch.setattr(index, "replace_file", killed_at(iter(range(100)), step))
            try:
                run_to_the_end(root)
                run_to_the_end(root)
            except KilledError:
                pass
            else:
                assert step > 2, "there are more writes than that"
                return
        run_to_the_end(root)
        assert timeless_tables(root) == timeless_tables(tmp_path / "whole")
        assert len(recorded_indices(root)) == len(NUMBERED_CASES)


def recorded_indices(root: Path) -> set[int]:
    with resumed(Corpus(root), "one") as record:
        return {number for number, _ in record.cases}
