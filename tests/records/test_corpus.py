"""The corpus on disk: what is written is read back; an unreadable file is named in the error."""

import errno
import json
import os
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_findings import FINDING, a_measurement, an_observation
from samples import a_case

from difftest.ground.errors import UsageError
from difftest.records import read_limits
from difftest.records.case_files import read_case, write_case
from difftest.records.corpus import OUTPUT, REDUCED, SCRIPT, Corpus
from difftest.records.damaged import set_aside
from difftest.records.observation import SCHEMA, Ending

OBSERVED = an_observation(
    index=3,
    backend="xla_spmd",
    case="0" * 12,
    path="hybrid",
    steps=1,
    started="2026-01-01T00:00:00+00:00",
    seconds=0.5,
    environment={},
    measurements=(
        a_measurement(ratio=0.1, error=1e-9, greatest=1e-9, scale=1.0, floor=1e-8, other_error=0.5),
    ),
)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    made = Corpus(tmp_path / "a" / "corpus")
    made.prepare()
    return made


def lines_of(corpus: Corpus) -> Path:
    return corpus.root / "observations" / "first.jsonl"


def test_a_finding_and_its_case_are_read_back(corpus: Corpus) -> None:
    case = a_case()
    corpus.save(FINDING, case)
    assert corpus.fingerprints() == (FINDING.fingerprint,)
    assert list(corpus.findings()) == [FINDING]
    assert corpus.case(FINDING.fingerprint) == case
    assert {file.name for file in (corpus.root / FINDING.fingerprint).iterdir()} == {
        "finding.json",
        "case.json",
    }


def test_saving_again_replaces(corpus: Corpus) -> None:
    corpus.save(FINDING, a_case())
    more = msgspec.structs.replace(FINDING, hits=9)
    corpus.save(more, a_case(seed=1))
    assert (corpus.finding(FINDING.fingerprint), corpus.case(FINDING.fingerprint)) == (more, a_case(seed=1))


def test_observations_are_read_back_in_order_file_by_file(corpus: Corpus) -> None:
    observations = [
        msgspec.structs.replace(OBSERVED, index=index, campaign=name)
        for name in ("a", "b")
        for index in range(3)
    ]
    for observation in sorted(observations, key=lambda o: o.index):
        corpus.observe(observation)
    assert list(corpus.observations()) == observations


@given(st.text(max_size=9), st.floats(0, 1e300), st.sampled_from(("agree", "diverge", "inconclusive")))
def test_any_observation_is_one_line_and_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, text: str, seconds: float, verdict: str
) -> None:
    corpus = Corpus(tmp_path_factory.mktemp("corpus"))
    corpus.prepare()
    ending = Ending(status="exception", message=text)
    observation = msgspec.structs.replace(
        OBSERVED, outcome=ending, seconds=seconds, verdict=verdict, reason=text, environment={text: text}
    )
    corpus.observe(observation)
    assert list(corpus.observations()) == [observation]
    assert lines_of(corpus).read_bytes().count(b"\n") == 1


def test_an_empty_or_absent_folder_holds_nothing(tmp_path: Path) -> None:
    for corpus in (Corpus(tmp_path), Corpus(tmp_path / "absent")):
        assert (corpus.fingerprints(), list(corpus.findings()), list(corpus.observations())) == ((), [], [])


def test_other_folders_are_not_taken_for_findings(corpus: Corpus) -> None:
    for name in ("notes", ".hidden-00000000", "xla-loss-mismatch-12345678", "Xla-loss-12345678"):
        (corpus.root / name).mkdir()
    assert corpus.fingerprints() == ()


def test_an_incomplete_last_line_is_ignored(corpus: Corpus) -> None:
    corpus.observe(OBSERVED)
    with lines_of(corpus).open("ab") as file:
        file.write(msgspec.json.encode(OBSERVED)[:-40])
    assert list(corpus.observations()) == [OBSERVED]


@pytest.mark.parametrize("line", [b"{", b"", b"[]", b"\xff", b"null", b'{"campaign": 1}', b"[" * 100_000])
def test_a_malformed_line_is_skipped_and_named_by_file_and_number(corpus: Corpus, line: bytes) -> None:
    corpus.observe(OBSERVED)
    with lines_of(corpus).open("ab") as file:
        file.write(line + b"\n")
    assert list(corpus.observations()) == [OBSERVED]
    (damage,) = set_aside(corpus)
    assert damage.reason.startswith(f"{lines_of(corpus)}, line 2: cannot be read: ")
    assert damage.kept == lines_of(corpus).with_name("first.jsonl.damaged")
    assert damage.kept.read_bytes() == line + b"\n"
    assert (list(corpus.observations()), set_aside(corpus)) == ([OBSERVED], ())


@pytest.mark.parametrize("rest", [{}, {"steps": "many"}])
def test_a_line_of_a_newer_program_is_refused(corpus: Corpus, rest: dict[str, object]) -> None:
    fields = json.loads(msgspec.json.encode(OBSERVED)) | {"schema": SCHEMA + 1} | rest
    lines_of(corpus).write_text(json.dumps(fields) + "\n")
    with pytest.raises(
        UsageError,
        match=rf"line 1: schema {SCHEMA + 1} was written by a newer version; "
        rf"this program reads up to {SCHEMA}",
    ):
        list(corpus.observations())


def test_an_unknown_finding_is_refused_with_the_existing_ones(corpus: Corpus) -> None:
    with pytest.raises(UsageError, match=r"no finding 'x' in .*; there are: none"):
        corpus.finding("x")
    corpus.save(FINDING, a_case())
    with pytest.raises(UsageError, match=f"there are: {FINDING.fingerprint}"):
        corpus.finding("x")


def test_a_finding_that_cannot_be_read_is_reported_with_the_reason(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_file: Path, _most: int) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    corpus.save(FINDING, a_case())
    monkeypatch.setattr(read_limits, "read", denied)
    with pytest.raises(UsageError, match=r"^cannot read '.*finding\.json': Permission denied$"):
        corpus.finding(FINDING.fingerprint)


def test_the_simplest_case_is_the_reduced_one_that_the_finding_names(corpus: Corpus) -> None:
    own, small, other = (a_case(seed=seed) for seed in range(3))
    corpus.save(FINDING, own)
    file = corpus.root / FINDING.fingerprint / REDUCED
    write_case(file, other)
    assert corpus.simplest(FINDING.fingerprint) == own
    corpus.save_reduced(FINDING.fingerprint, small, ())
    assert corpus.simplest(FINDING.fingerprint) == small
    write_case(file, other)
    assert corpus.simplest(FINDING.fingerprint) == own, "it is another case's reduction"
    file.unlink()
    assert corpus.simplest(FINDING.fingerprint) == own


def test_the_reproducer_of_a_larger_case_is_deleted_when_a_smaller_case_is_saved(corpus: Corpus) -> None:
    corpus.save(FINDING, a_case())
    script, output = (corpus.root / FINDING.fingerprint / name for name in (SCRIPT, OUTPUT))
    for seed, stays in ((1, False), (1, True), (2, False)):
        script.write_text("exit(1)")
        output.write_text("1.0")
        corpus.save_reduced(FINDING.fingerprint, a_case(seed=seed), ())
        assert (script.exists(), output.exists()) == (stays, stays)


def test_a_malformed_finding_or_case_is_named_by_its_file(corpus: Corpus) -> None:
    corpus.save(FINDING, a_case())
    for name in ("finding.json", "case.json"):
        (corpus.root / FINDING.fingerprint / name).write_text("{")
    with pytest.raises(UsageError, match=r"finding\.json: finding cannot be read"):
        list(corpus.findings())
    with pytest.raises(UsageError, match=r"case\.json: case cannot be read"):
        corpus.case(FINDING.fingerprint)


def test_the_error_for_a_missing_case_file_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read '.*/none\.json': No such file or directory"):
        read_case(tmp_path / "none.json")


@pytest.mark.parametrize("inside", [".", "below"])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, inside: str) -> None:
    (tmp_path / "file").write_text("a file where a folder should be")
    with pytest.raises(
        UsageError, match=r"cannot write to '.*file.*': .*; give a folder that can be made and written"
    ):
        Corpus(tmp_path / "file" / inside).prepare()


def test_preparing_leaves_nothing_but_the_folder_for_observations(corpus: Corpus) -> None:
    corpus.prepare()
    assert [file.name for file in corpus.root.iterdir()] == ["observations"]


def test_the_lock_excludes_other_threads(corpus: Corpus) -> None:
    entered = threading.Event()

    def enter() -> None:
        with corpus.locked():
            entered.set()

    other = threading.Thread(target=enter)
    with corpus.locked():
        other.start()
        assert not entered.wait(0.05)
    other.join()
    assert entered.is_set()
