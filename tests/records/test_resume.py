"""Campaigns that are killed at any point and resumed have the tables of an undisturbed campaign.

Nothing recorded is lost, and nothing is run or counted twice.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from machines import NUMBERED_CASES, a_campaign, machine_with_two_faults, run_to_the_end, timeless_tables
from sample_findings import FINDING
from samples import tensor_parallel_case

from difftest.campaign import run as loop
from difftest.campaign.campaign import TRIES
from difftest.campaign.recording import Progress
from difftest.campaign.run import run
from difftest.ground.clock import utc_today
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.records import announced, disk
from difftest.records import corpus as corpus_module
from difftest.records.corpus import Corpus
from difftest.records.definition import CampaignDefinition, versions
from difftest.records.observation import Observation, read_observations
from difftest.records.resume import resumed

DEFINED = CampaignDefinition(
    seed=0, paths=("a", "b"), backends=("ddp",), max_world_size=8, twice_every=8, versions={"torch": "2"}
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an undisturbed campaign."""
    root = tmp_path_factory.mktemp("whole")
    assert len(run_to_the_end(root)) == len(NUMBERED_CASES)
    assert [finding.hits for finding in Corpus(root).findings()] == [2, 4]
    return root


class KilledError(BaseException):
    """Stands for SIGKILL: no `except Exception` catches it."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Kills before write number `step`, counted from 0, and halfway through a write that can be half done.

    The function that it returns says whether it has killed.
    """
    steps = iter(range(10**6))
    struck = []

    def strike(half: Callable[[], object] = bool) -> None:
        if next(steps) == step:
            struck.append(half())
            raise KilledError

    def replace(file: Path, content: bytes, real: Callable[[Path, bytes], None] = disk.replace_file) -> None:
        strike(lambda: file.with_name(f".{file.name}.0").write_bytes(content[: len(content) // 2]))
        real(file, content)

    def observe(
        corpus: Corpus, *observations: Observation, real: Callable[..., None] = Corpus.observe
    ) -> None:
        text = b"".join(msgspec.json.encode(observation) + b"\n" for observation in observations)
        for part in (text[: len(text) // 2], text[: text.index(b"\n") + 1], text[:-1], text):

            def append(part: bytes = part) -> None:
                with corpus.lines(observations[0].campaign).open("ab") as file:
                    file.write(part)

            strike(append)
        real(corpus, *observations)

    monkeypatch.setattr(corpus_module, "replace_file", replace)
    monkeypatch.setattr(Corpus, "observe", observe)
    return lambda: bool(struck)


@pytest.mark.long
def test_a_campaign_killed_at_any_write_resumes_to_the_same_tables(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cases are recorded one by one here; in the test below, those that are complete go together."""
    monkeypatch.setattr(loop, "MOST_AT_ONCE", 1)
    for step in range(10**6):
        root = tmp_path / str(step)
        with pytest.MonkeyPatch.context() as patch:
            struck = killed_at(step, patch)
            try:
                run_to_the_end(root)
            except KilledError:
                assert struck()
            else:
                assert step > 20, "there are more writes than that"
                return
        run_to_the_end(root)
        assert timeless_tables(root) == timeless_tables(whole), f"killed at write {step}"
        shutil.rmtree(root)


def test_a_campaign_killed_at_every_write_in_turn_completes(whole: Path, tmp_path: Path) -> None:
    """Each attempt gets a little further than the previous one."""
    for step in range(10**6):
        with pytest.MonkeyPatch.context() as patch:
            killed_at(step, patch)
            try:
                run_to_the_end(tmp_path)
            except KilledError:
                continue
        break
    assert timeless_tables(tmp_path) == timeless_tables(whole)


@pytest.mark.long
@pytest.mark.parametrize("every", [101, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.nightly])])
def test_complete_cases_are_kept_wherever_the_file_of_runs_is_cut_off(
    whole: Path, tmp_path: Path, every: int
) -> None:
    text = Corpus(whole).lines("one").read_bytes()
    ends = [run.index for run in read_observations(Corpus(whole).lines("one"))]
    corpus = Corpus(tmp_path)
    corpus.prepare()
    for size in (*range(0, len(text), every), len(text)):
        corpus.lines("one").write_bytes(text[:size])
        complete = text[:size].count(b"\n")
        expected = {
            index for index in range(len(NUMBERED_CASES)) if ends[:complete].count(index) == ends.count(index)
        }
        with resumed(corpus, "one") as recorded:
            assert {index for index, _ in recorded.cases} == expected
            assert recorded.runs == sum(ends.count(index) for index in expected)
    assert {index for index, _ in recorded.cases} == {0, 1, 2, 3}


@pytest.mark.long
def test_a_file_cut_off_anywhere_is_completed_to_the_same_tables(whole: Path, tmp_path: Path) -> None:
    text = Corpus(whole).lines("one").read_bytes()
    boundaries = [place for place in range(len(text)) if text[place : place + 1] == b"\n"]
    sizes = {0, 1, len(text), *range(0, len(text), 499), *(b + by for b in boundaries for by in (-1, 0, 1))}
    for size in sorted(sizes):
        root = tmp_path / str(size)
        shutil.copytree(whole, root)
        Corpus(root).lines("one").write_bytes(text[:size])
        run_to_the_end(root)
        assert timeless_tables(root) == timeless_tables(whole), f"cut off after {size} bytes"


def test_recorded_runs_are_not_repeated(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    machine = machine_with_two_faults()
    assert run_to_the_end(tmp_path, machine) == []
    assert not machine.requests
    lines = Corpus(tmp_path).lines("one")
    lines.write_bytes(b"".join(lines.read_bytes().splitlines(keepends=True)[:-1]))
    run_to_the_end(tmp_path, machine)
    assert {case for case, _ in machine.requests} == {NUMBERED_CASES[-1][1].id}
    assert timeless_tables(tmp_path) == timeless_tables(whole)


def test_a_case_with_an_infrastructure_error_is_run_when_the_campaign_resumes(
    whole: Path, tmp_path: Path
) -> None:
    machine = machine_with_two_faults()
    machine.spoiled = {"spmd": TRIES}
    assert [p.result.trouble for p in run_to_the_end(tmp_path, machine)] == ["a node was lost", "", "", ""]
    assert [p.result.index for p in run_to_the_end(tmp_path, machine)] == [0]
    assert timeless_tables(tmp_path)[0] == timeless_tables(whole)[0]
    assert [(f.fingerprint, f.hits) for f in timeless_tables(tmp_path)[1]] == [
        (f.fingerprint, f.hits) for f in timeless_tables(whole)[1]
    ]


def test_another_case_under_a_recorded_index_is_run(whole: Path, tmp_path: Path) -> None:
    """After a change of the generators, the recorded case is not the requested one."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    campaign = a_campaign(tmp_path, machine := machine_with_two_faults())
    with resumed(campaign.corpus, "one") as recorded:
        list(run(campaign, [(0, tensor_parallel_case(seed=77))], recorded))
    assert len(machine.requests) == 3


def test_a_finding_stays_new_to_resuming_commands_until_it_is_announced(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        killed_at(3, patch)  # the finding and its case are written, and half of its runs
        with pytest.raises(KilledError):
            run_to_the_end(tmp_path)
    (finding,) = Corpus(tmp_path).findings()
    again = run_to_the_end(tmp_path)
    assert finding.fingerprint in [f.fingerprint for f in again[0].new]
    new = announced.new_findings(Corpus(tmp_path), "one")
    assert len(new) == 2
    announced.mark_announced(Corpus(tmp_path), [f.fingerprint for f in new], utc_today())
    assert announced.new_findings(Corpus(tmp_path), "two") == (), "another campaign does not announce them"


def test_exactly_one_later_campaign_announces_the_findings_of_a_killed_one(tmp_path: Path) -> None:
    run_to_the_end(tmp_path, name="killed")
    corpus = Corpus(tmp_path)
    with resumed(corpus, "killed"):
        assert announced.new_findings(corpus, "next") == (), "it still runs, and announces them itself"
    barrier, new = threading.Barrier(4), Counter[str]()

    def tell(name: str) -> None:
        with resumed(corpus, name):
            barrier.wait()
            new.update(f.fingerprint for f in announced.new_findings(corpus, name))
            barrier.wait()

    threads = [threading.Thread(target=tell, args=(f"next{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(new.values()) == {1}
    assert set(new) == set(corpus.fingerprints())


def test_a_fresh_campaign_repeats_every_case_and_keeps_findings_and_counts(
    whole: Path, tmp_path: Path
) -> None:
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    assert len(run_to_the_end(tmp_path, fresh=True)) == len(NUMBERED_CASES)
    assert timeless_tables(tmp_path) == timeless_tables(whole)
    assert (tmp_path / "observations" / "one.jsonl.1").read_bytes() == Corpus(whole).lines("one").read_bytes()


def test_old_runs_are_renamed_with_the_first_free_number(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.prepare()
    lines = corpus.lines("one")
    lines.with_name("one.jsonl.2").write_text("of an earlier campaign, whose predecessor was deleted")
    for number, name in enumerate(("one.jsonl.1", "one.jsonl.3")):
        lines.write_text(f"{number}")
        disk.move_aside(lines, lines)
        assert lines.with_name(name).read_text() == f"{number}"
    assert lines.with_name("one.jsonl.2").read_text().startswith("of an earlier campaign")


def test_two_processes_cannot_run_one_campaign(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.prepare()
    with (
        resumed(corpus, "one"),
        pytest.raises(
            UsageError, match=r"campaign one is being run on .* already; wait for it, or give another"
        ),
    ):
        run_to_the_end(tmp_path)
    assert len(run_to_the_end(tmp_path)) == len(NUMBERED_CASES)


@pytest.mark.parametrize("rounds", range(3))
def test_two_concurrent_campaigns_on_a_corpus_lose_nothing_and_report_once(
    tmp_path: Path, rounds: int
) -> None:
    del rounds
    progress = list[Progress]()
    threads = [
        threading.Thread(target=lambda name=name: progress.extend(run_to_the_end(tmp_path, name=name)))
        for name in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    new = Counter(f.fingerprint for one in progress for f in one.new)
    assert set(new.values()) == {1}
    assert [f.hits for f in Corpus(tmp_path).findings()] == [4, 8]
    assert len(list(Corpus(tmp_path).observations())) == 2 * 3 * len(NUMBERED_CASES)


def test_a_full_disk_is_an_infrastructure_error_and_leaves_no_partial_case(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "difftest.records.disk.cut_incomplete_line"
    with monkeypatch.context() as patch:
        patch.setattr(full, lambda _opened: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(
            InfrastructureError, match=r"cannot write '.*one\.jsonl': No space left on device"
        ):
            run_to_the_end(tmp_path)
    run_to_the_end(tmp_path)
    assert timeless_tables(tmp_path) == timeless_tables(whole)


PROGRAM = """
import sys, time
from pathlib import Path

from machines import Machine, run_to_the_end, sharded, sharded_with_odd_seed

class Slow(Machine):
    def answer(self, case, backend):
        time.sleep(0.02)
        return super().answer(case, backend)

run_to_the_end(Path(sys.argv[1]), Slow(spmd=sharded, ddp=sharded_with_odd_seed))
print("done")
"""


def attempts(root: Path) -> Iterator[int]:
    """Exit statuses of the campaign's processes, killed after ever longer times until one ends by itself."""
    tests = Path(__file__).parents[1]
    path = os.pathsep.join(map(str, (tests / "support", tests.parent)))
    for number in range(40):
        environment = {**os.environ, "PYTHONPATH": path}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(root)], env=environment, stdout=subprocess.PIPE
        )
        mark = root / "observations" / ".one.lock"
        while process.poll() is None and not mark.exists():
            time.sleep(0.005)
        if number == 0 or process.poll() is None:
            time.sleep(0.05 + 0.11 * number if number else 0.25)
        process.send_signal(signal.SIGKILL) if process.poll() is None else None
        process.communicate()
        yield process.returncode
        if process.returncode == 0:
            return


@pytest.mark.slow
@pytest.mark.nightly  # with every change, a campaign is killed at any write, in one process
def test_a_repeatedly_killed_process_ends_with_the_same_tables(whole: Path, tmp_path: Path) -> None:
    statuses = list(attempts(tmp_path))
    assert statuses[-1] == 0
    assert -signal.SIGKILL in statuses
    assert timeless_tables(tmp_path) == timeless_tables(whole)


def test_the_name_of_a_campaign_depends_on_its_definition() -> None:
    names = {DEFINED.name}
    for changes in (
        {"seed": 1},
        {"paths": ("a",)},
        {"backends": ("spmd",)},
        {"max_world_size": 4},
        {"twice_every": 0},
        {"versions": {"torch": "3"}},
        {"where": {"PJRT_DEVICE": "CUDA"}},
    ):
        names.add(msgspec.structs.replace(DEFINED, **changes).name)
    assert len(names) == 8
    assert DEFINED.name == msgspec.structs.replace(DEFINED).name == "seed0-" + DEFINED.name[6:]
    assert versions()["hypothesis"][0].isdigit()


def test_the_definition_of_a_campaign_is_kept_beside_its_runs(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    corpus.prepare()
    DEFINED.keep(corpus)
    kept = (tmp_path / "observations" / f"{DEFINED.name}.json").read_bytes()
    assert msgspec.json.decode(kept, type=CampaignDefinition) == DEFINED
    assert list(corpus.observations()) == []


def test_findings_of_older_versions_keep_their_count(tmp_path: Path) -> None:
    run_to_the_end(tmp_path)
    corpus = Corpus(tmp_path)
    first = next(corpus.findings())
    corpus.amend(first.fingerprint, cases_by_campaign={}, hits=FINDING.hits)
    run_to_the_end(tmp_path, name="two")
    assert corpus.finding(first.fingerprint).hits == FINDING.hits + 2
