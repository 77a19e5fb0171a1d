"""Ten thousand damaged files.

Each is read as a valid value or refused with a message; nothing is written elsewhere; no finding is lost.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec
import mutations
import pytest
import sample_bundles
from hypothesis import given, settings
from hypothesis import strategies as st
from machines import a_campaign, machine_with_two_faults
from sample_findings import finding_of
from samples import DEEP, a_case, a_failure, oracle, tensor_parallel_case

from difftest.campaign.campaign import Campaign
from difftest.campaign.run import run
from difftest.cases.case import Case, Training
from difftest.findings.facts import FACTS, facts
from difftest.findings.ledger import Ledger, read_ledger
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from difftest.judge.outcome import Failure, Symptom, Trace
from difftest.judge.stage import Stage
from difftest.records import read_limits, traces
from difftest.records.announced import new_findings
from difftest.records.bundle import BundleWriter, Joined
from difftest.records.case_files import read_case
from difftest.records.corpus import DAMAGED, Corpus
from difftest.records.damaged import set_aside
from difftest.records.finding import Finding
from difftest.records.observation import Observation, read_lines, read_observation
from difftest.records.resume import resumed
from reports.write import FORMATS, write

CASES = (
    a_case(),
    a_case(DEEP, mesh=(("dp", 2), ("tp", 3)), seed=5),
    tensor_parallel_case(training=Training(optimizer="adam", steps=3, clip_norm=0.5)),
)


def shares(fast: int, slow: int) -> pytest.MarkDecorator:
    """Parametrizes how many files are damaged: in the fast tests, and in the nightly ones."""
    return pytest.mark.parametrize(
        "count", [fast, pytest.param(slow, marks=[pytest.mark.slow, pytest.mark.nightly])]
    )


@contextmanager
def damaged(rng: Random, file: Path) -> Iterator[bytes]:
    """Damages a file, and restores it at the end of the context."""
    whole = file.read_bytes()
    content = mutations.of_file(rng, file.name, whole)
    file.write_bytes(content)
    try:
        yield content
    finally:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(whole)


@shares(60, 5000)
def test_damaged_cases(tmp_path: Path, count: int) -> None:
    file, refused = tmp_path / "case.json", list[str]()
    for number in range(count):
        rng = mutations.numbered(number)
        file.write_bytes(rng.choice(CASES).to_json())
        with damaged(rng, file):
            try:
                case = read_case(file)
            except UsageError as error:
                refused.append(str(error))
            else:
                assert Case.from_json(case.to_json()) == case
                assert (len(case.id), case.unsharded().world_size) == (12, 1)
                assert set(facts(case)) == set(FACTS)
    assert 0 < len(refused) < count
    assert all(str(file) in message for message in refused)


@shares(20, 1000)
def test_damaged_runs(tmp_path: Path, count: int) -> None:
    refused = list[str]()
    for number in range(count):
        rng = mutations.numbered(number)
        outcome = rng.choice((oracle(CASES[0]), a_failure()))
        traces.save(tmp_path / "run", outcome)
        with damaged(rng, rng.choice(sorted(tmp_path.glob("run.*")))):
            try:
                assert isinstance(traces.load(tmp_path / "run"), Trace | Failure)
            except UsageError as error:
                refused.append(str(error))
        for file in tmp_path.iterdir():
            file.unlink()
    assert 0 < len(refused) < count
    assert all("run.json" in message for message in refused)


@pytest.mark.long
@shares(16, 1500)
def test_damaged_corpora(tmp_path: Path, count: int) -> None:
    """A campaign on a damaged corpus runs and writes reports; every earlier finding is there or set aside.

    It refuses the corpus only where a record claims to be of a newer version.
    """
    out, refused, kept = tmp_path / "out", list[str](), 0
    whole = Corpus(tmp_path / "whole")
    list(run(a_campaign(whole.root, machine_with_two_faults()), enumerate(CASES[:1] + CASES[2:])))
    names = whole.fingerprints()
    assert names
    for number in range(count):
        rng = mutations.numbered(number)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(whole.root, out / "corpus")
        corpus = Corpus(out / "corpus")
        with damaged(
            rng, rng.choice([file for file in sorted(corpus.root.rglob("*.json*")) if file.is_file()])
        ):
            try:
                set_aside(corpus)
                with resumed(corpus, "one") as recorded:
                    list(
                        run(
                            a_campaign(corpus.root, machine_with_two_faults()), enumerate(CASES[:1]), recorded
                        )
                    )
                new_findings(corpus, "two")
                write(out, plugins.names(FORMATS) if number % 8 == 0 else ("summary",))
                assert set_aside(corpus) == ()
            except UsageError as error:
                refused.append(str(error))
            assert set(names) <= {
                *corpus.fingerprints(),
                *(p.name for p in (corpus.root / DAMAGED).glob("*")),
            }
            kept += (corpus.root / DAMAGED).is_dir() or any(corpus.root.glob(f"*/*.{DAMAGED}"))
    assert 0 < kept < count
    assert all(str(out) in message and "newer version" in message for message in refused)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out", "whole"]


def a_bundle(root: Path) -> Path:
    """A bundle of two cases on two backends, one of which fails in the second case."""
    recorder = BundleWriter(root)
    for index, case in enumerate(sample_bundles.CASES[:2]):
        for number, it in ((index, case), (-1, case.unsharded())):
            for backend in ("oracle", "ddp", "spmd", "spmd"):
                outcome = a_failure() if backend == "ddp" and index else sample_bundles.answer(it, backend)
                recorder.keep(
                    number,
                    it,
                    (backend, sample_bundles.SIDES[backend], sample_bundles.FRAMEWORKS[backend]),
                    {},
                    outcome,
                )
    return root


def told_of(root: Path, out: Path) -> None:
    """Compares a bundle; its findings go into a new corpus in `out`."""
    joined, corpus = Joined([root], "oracle"), Corpus(out)
    corpus.prepare()
    for _ in run(
        Campaign(name="compare", backends=joined.backends, execute=joined.execute, corpus=corpus),
        joined.cases,
    ):
        pass
    assert set_aside(corpus) == ()


def signed(root: Path, file: Path, content: bytes) -> bytes:
    """The lines of a bundle with the digest of a damaged run, as an attacker would write them."""
    lines = [json.loads(line) for line in (root / "runs.jsonl").read_bytes().splitlines()]
    for line in lines:
        if str(line["number"]) == file.stem:
            line["digests"][file.suffix[1:]] = hashlib.sha256(content).hexdigest()
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@shares(10, 2000)
def test_damaged_bundles(tmp_path: Path, count: int) -> None:
    """The digests fit the damaged files, as an attacker would make them."""
    root, refused = a_bundle(tmp_path / "bundle"), list[str]()
    kinds = {kind: sorted(root.glob(kind)) for kind in ("runs.jsonl", "cases/*", "runs/*.json", "runs/*.npz")}
    lines = (root / "runs.jsonl").read_bytes()
    for number in range(count):
        rng = mutations.numbered(number)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        with damaged(rng, file := rng.choice(kinds[rng.choice(sorted(kinds))])) as content:
            if file.parent.name == "runs":
                (root / "runs.jsonl").write_bytes(signed(root, file, content))
            try:
                told_of(root, tmp_path / "out")
            except UsageError as error:
                refused.append(str(error))
        (root / "runs.jsonl").write_bytes(lines)
    assert 0 < len(refused) < count
    assert all(str(root) in message for message in refused)
    assert {file.name for file in tmp_path.iterdir()} <= {"bundle", "out"}


def a_ledger() -> str:
    """A ledger in one file, as users write it, with twenty of the project's own entries."""
    some = [entry for entry in read_ledger().entries if not entry.where][:20]
    lines = list[str]()
    for fields in map(msgspec.to_builtins, some):
        what = {f"what.{fact}": pattern for fact, pattern in fields.pop("what").items()}
        given = {**fields, **what}.items()
        lines += ["[[known]]", *(f"{name} = {json.dumps(value)}" for name, value in given if value)]
    return "\n".join(lines)


@pytest.mark.long
@shares(30, 500)
def test_damaged_ledgers(tmp_path: Path, count: int) -> None:
    file, refused = tmp_path / "known.toml", list[str]()
    text = a_ledger()
    for number in range(count):
        file.write_text(text)
        with damaged(mutations.numbered(number), file):
            try:
                assert isinstance(read_ledger(file), Ledger)
            except UsageError as error:
                refused.append(str(error))
    assert 0 < len(refused) < count
    assert all(str(file) in message for message in refused)


texts = st.text(max_size=12) | st.sampled_from(
    ("schema", "mesh", "S", "layers", "linear", "tag", "fingerprint", "outcome")
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.long
@given(st.data())
@settings(max_examples=100)
def test_any_json_is_read_as_a_valid_value_or_refused(data: st.DataObject) -> None:
    """Reads any value, or a valid one with any part of it replaced by any value."""
    of, kind, parse = data.draw(st.sampled_from(PARSERS))
    whole = json.loads(of)
    if isinstance(whole, dict) and whole and data.draw(st.booleans()):
        whole[data.draw(st.sampled_from(sorted(whole)))] = data.draw(values)
    else:
        whole = data.draw(values)
    text = json.dumps(whole).encode()
    try:
        read = parse(text)
    except UsageError:
        return
    assert isinstance(read, kind)


SAMPLE = finding_of(
    fingerprint="a-b-mismatch-00000000",
    symptom=Symptom.MISMATCH,
    stage=Stage.UPDATE,
    backend="a",
    side="xla",
    path="p",
    check="b",
    blame="",
    hits=1,
    case="0" * 12,
)


PARSERS: tuple[tuple[bytes, type, Callable[[bytes], object]], ...] = (
    (CASES[1].to_json(), Case, Case.from_json),
    (SAMPLE.to_json(), Finding, Finding.from_json),
    (b"{}", Observation, lambda text: read_observation(text, "here")),
)
"""What difftest reads from JSON: a valid example, its type and its parser."""


def read_campaign_line(file: Path) -> None:
    """Raises what is wrong with the first line of a campaign's file."""
    run = next(read_lines(file)).run
    if isinstance(run, UsageError):
        raise run


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "case.json": ("MOST_CASE_BYTES", read_case),
    "known.toml": ("MOST_LEDGER_BYTES", read_ledger),
    "run.json": ("MOST_RUN_BYTES", lambda file: traces.load(file.with_suffix(""))),
    "runs.jsonl": ("MOST_LINE_BYTES", lambda file: Joined([file.parent], "oracle")),
    "one.jsonl": ("MOST_LINE_BYTES", read_campaign_line),
    "finding.json": ("MOST_FINDING_BYTES", lambda file: Corpus(file.parent.parent).finding(file.parent.name)),
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    limit, read = READERS[name]
    monkeypatch.setattr(read_limits, limit, 100)
    file = tmp_path / "observations" / name
    file.parent.mkdir()
    file.write_bytes(b" " * 10**6)
    with pytest.raises(UsageError, match="100 bytes, the most that is read of"):
        read(file)


def test_a_finding_in_a_folder_of_another_name_is_refused(tmp_path: Path) -> None:
    """To count it once more would write to the path in its name."""
    corpus = Corpus(tmp_path / "corpus")
    corpus.prepare()
    corpus.save(SAMPLE, CASES[0])
    file = corpus.root / SAMPLE.fingerprint / "finding.json"
    file.write_bytes(file.read_bytes().replace(SAMPLE.fingerprint.encode(), b"../../escaped"))
    with pytest.raises(
        UsageError, match=r"holds '../../escaped'; a finding's folder has its fingerprint's name"
    ):
        corpus.finding(SAMPLE.fingerprint)
    assert [damage.kept for damage in set_aside(corpus)] == [corpus.root / DAMAGED / SAMPLE.fingerprint]


@pytest.mark.parametrize("field", ["backend", "side"])
def test_a_bundles_names_cannot_be_paths(tmp_path: Path, field: str) -> None:
    root = a_bundle(tmp_path / "bundle")
    line = json.loads((root / "runs.jsonl").read_bytes().splitlines()[1])
    (root / "runs.jsonl").write_text(json.dumps(line | {field: "../../escaped"}) + "\n")
    with pytest.raises(UsageError, match=r"\.\./\.\./escaped.*allowed: names of a-z, 0-9 and _"):
        Joined([root], "oracle")


def test_an_array_header_larger_than_its_data_is_refused_before_allocation(tmp_path: Path) -> None:
    traces.save(tmp_path / "run", oracle(CASES[0]))
    packed = tmp_path / "run.npz"
    content = packed.read_bytes()
    larger, places = re.subn(rb"'shape': \(\d+,\), } {9}", b"'shape': (8000000000,), }", content)
    assert places
    packed.write_bytes(larger[: len(content)])
    with pytest.raises(UsageError, match=r"run\.json cannot be read"):
        traces.load(tmp_path / "run")


@pytest.mark.parametrize(
    "events",
    [
        {"graphs": "many"},
        {"graphs": [1, None]},
        {"clients": [{}]},
        {"clients": {"a": 1}},
        {"in_range": "yes"},
        {"graphs": [-1]},
        {"misplaced": 3},
        {"misplaced": {"0.weight": [[1]]}},
        {"native": "x"},
        {"host_operators": {"a": [-1]}},
    ],
)
def test_events_of_wrong_types_are_refused(tmp_path: Path, events: dict[str, object]) -> None:
    traces.save(tmp_path / "run", oracle(CASES[0]))
    run = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(run | {"events": events}))
    with pytest.raises(UsageError, match=r"run\.json cannot be read: ValidationError"):
        traces.load(tmp_path / "run")


def test_an_oracle_that_does_not_fit_its_case_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    BundleWriter(root).keep(0, CASES[0], ("oracle", "oracle", ""), {}, oracle(CASES[2]))
    with pytest.raises(UsageError, match=r"has 3 steps; case \w+ has 1"):
        Joined([root], "oracle").execute(CASES[0], "oracle", {})
    truth = oracle(CASES[0])
    other = tmp_path / "other"
    BundleWriter(other).keep(
        0, CASES[0], ("oracle", "oracle", ""), {}, Trace(steps=truth.steps, environment=truth.environment)
    )
    with pytest.raises(
        UsageError, match="is no oracle's: every tensor must be whole, with its noise in its shape"
    ):
        Joined([other], "oracle").execute(CASES[0], "oracle", {})
