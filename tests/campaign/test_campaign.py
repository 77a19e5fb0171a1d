"""Whole campaigns on made-up backends: their findings, counts, blame and records, in milliseconds."""

import dataclasses
import threading
import time
from pathlib import Path

import pytest
from machines import SIDES, Machine, a_campaign, always, backend, examined, sharded, the_finding
from samples import a_case, a_failure, candidate, tensor_parallel_case, wrong_at

from difftest.campaign.campaign import TRIES, Campaign
from difftest.campaign.new_finding import REPEATS
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.ground.errors import UnsupportedError
from difftest.judge.outcome import Failure, Outcome, Symptom
from difftest.judge.stage import Stage
from difftest.records.corpus import Corpus
from difftest.records.resume import resumed


def test_correct_backends_give_observations_and_no_finding(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, Machine())
    (progress,) = examined(campaign)
    assert (progress.new, progress.recurring, progress.result.trouble) == ((), (), "")
    observations = {o.backend: o for o in campaign.corpus.observations()}
    assert {name: (o.side, o.verdict, o.outcome.status) for name, o in observations.items()} == {
        "oracle": ("oracle", "oracle", "finished"),
        "ddp": ("torch", "agree", "finished"),
        "spmd": ("xla", "agree", "finished"),
    }
    assert observations["ddp"].measurements
    assert {m.other_error is not None for m in observations["ddp"].measurements} == {True}


def test_an_observation_describes_its_case_for_the_tables(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, Machine(ddp=sharded))
    examined(campaign, a_case(mesh=(("dp", 2), ("tp", 3)), seed=5))
    (observation,) = (o for o in campaign.corpus.observations() if o.backend == "ddp")
    assert (
        observation.path,
        observation.mesh,
        observation.mesh_rank,
        observation.world_size,
        observation.layers,
    ) == (
        "data_parallel",
        "dp=2 x tp=3",
        2,
        6,
        ("Linear",),
    )
    assert (observation.campaign, observation.purpose, observation.environment) == (
        "one",
        "campaign",
        {"torch": "1"},
    )
    assert observation.fingerprints == (the_finding(campaign).fingerprint,)


def test_a_divergence_is_one_new_finding_and_then_counted(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, Machine(spmd=sharded))
    cases = [tensor_parallel_case(seed=seed) for seed in range(4)]
    progress = examined(campaign, *cases)
    assert [len(p.new) for p in progress] == [1, 0, 0, 0]
    assert [len(p.recurring) for p in progress] == [0, 1, 1, 1]
    finding = the_finding(campaign)
    assert (finding.hits, finding.case, finding.stable) == (4, cases[0].id, (REPEATS, REPEATS))
    assert campaign.corpus.case(finding.fingerprint) == cases[0]
    assert finding.first_seen <= finding.last_seen


def test_another_campaign_on_the_same_corpus_counts_the_finding(tmp_path: Path) -> None:
    examined(a_campaign(tmp_path, Machine(spmd=sharded)))
    machine = Machine(spmd=sharded)
    (progress,) = examined(a_campaign(tmp_path, machine, name="two"))
    assert (progress.new, [finding.hits for finding in progress.recurring]) == ((), [2])
    assert {name: count for (_, name), count in machine.requests.items()} == {
        "oracle": 2,
        "spmd": 1,
        "ddp": 1,
    }, "the oracle runs twice where backends diverge"


def test_versions_of_one_backend_have_separate_findings_that_recur(
    tmp_path: Path,
) -> None:
    names = ("spmd@2.8", "spmd@nightly_2.10")
    backends, machine = dict.fromkeys(names, backend("xla")), Machine(**dict.fromkeys(names, sharded))
    (first,) = examined(a_campaign(tmp_path, machine, backends))
    (second,) = examined(a_campaign(tmp_path, machine, backends, name="two"))
    assert {finding.divergence.backend for finding in first.new} == set(names)
    assert ([finding.hits for finding in second.recurring], second.new) == ([2, 2], ())
    assert {finding.divergence.backend for finding in Corpus(tmp_path).findings()} == set(names)


def test_a_finding_that_another_campaign_saves_meanwhile_is_counted_not_overwritten(tmp_path: Path) -> None:
    other = a_campaign(tmp_path, Machine(spmd=sharded), name="other")

    class Slow(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            if not case.layout.batch_axes and case.world_size == 1 and not other.corpus.fingerprints():
                examined(other)  # while this one fills its 2 x 2
            return super().answer(case, backend)

    (progress,) = examined(a_campaign(tmp_path, Slow(spmd=sharded)))
    assert (len(progress.new), [finding.hits for finding in progress.recurring]) == (0, [2])


def test_a_failure_on_two_paths_is_one_finding_with_both(tmp_path: Path) -> None:
    class Failing(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            return (
                a_failure(Symptom.CRASH, message=f"size {case.world_size}")
                if backend == "spmd"
                else super().answer(case, backend)
            )

    campaign = a_campaign(tmp_path, Failing())
    examined(campaign, tensor_parallel_case(), a_case())
    finding = the_finding(campaign)
    assert (finding.paths, finding.hits, finding.divergence.symptom) == (
        ("data_parallel", "tensor_parallel"),
        2,
        Symptom.CRASH,
    )


def test_a_run_that_failed_by_infrastructure_is_retried(tmp_path: Path) -> None:
    machine = Machine()
    machine.spoiled = {"spmd": TRIES - 1}
    campaign = a_campaign(tmp_path, machine)
    (progress,) = examined(campaign)
    assert progress.result.trouble == ""
    assert machine.requests[tensor_parallel_case().id, "spmd"] == TRIES


@pytest.mark.parametrize("spoiled", [("oracle",), ("ddp", "spmd")])
def test_persistent_infrastructure_errors_are_trouble_and_never_a_finding(
    tmp_path: Path, spoiled: tuple[str, ...]
) -> None:
    machine = Machine(ddp=always)
    machine.spoiled = dict.fromkeys(spoiled, TRIES)
    campaign = a_campaign(tmp_path, machine)
    broken, whole = examined(campaign, tensor_parallel_case(), tensor_parallel_case(seed=1))
    assert (broken.result.trouble, broken.new, broken.result.runs) == ("a node was lost", (), {})
    assert (whole.result.trouble, len(whole.new)) == ("", 1)
    lines = [(o.index, o.backend, o.verdict) for o in campaign.corpus.observations()]
    assert [line for line in lines if line[0] == 0] == [(0, "ddp", "lost"), (0, "spmd", "lost")]
    assert "lost" not in {verdict for index, _, verdict in lines if index == 1}


def test_a_backend_lost_to_infrastructure_leaves_other_findings_and_is_retried_on_resume(
    tmp_path: Path,
) -> None:
    machine = Machine(ddp=always)
    machine.spoiled = {"spmd": TRIES}
    campaign = a_campaign(tmp_path, machine)
    (partial,) = examined(campaign)
    assert (partial.result.trouble, set(partial.result.runs)) == ("a node was lost", {"oracle", "ddp"})
    assert [finding.divergence.backend for finding in partial.new] == ["ddp"]
    with resumed(campaign.corpus, campaign.name) as recorded:
        (whole,) = run(campaign, enumerate((tensor_parallel_case(),)), recorded)
    assert set(whole.result.runs) == {"oracle", *SIDES}
    assert (the_finding(campaign).hits, len(list(campaign.corpus.observations()))) == (1, 3), (
        "nothing is counted twice"
    )


def test_a_backend_whose_worker_refuses_a_case_is_skipped_for_it(tmp_path: Path) -> None:
    class Older(Machine):
        """A machine whose packages are older than the driver's."""

        def answer(self, case: Case, backend: str) -> Outcome:
            if backend == "spmd":
                msg = "this older torch_xla has no such kernel"
                raise UnsupportedError(msg)
            return super().answer(case, backend)

    machine = Older()
    (progress,) = examined(a_campaign(tmp_path, machine))
    assert (set(progress.result.runs), progress.result.trouble, progress.new) == (
        {"oracle", "ddp"},
        "",
        (),
    )
    (line,) = (o for o in Corpus(tmp_path).observations() if o.backend == "spmd")
    assert (line.verdict, line.outcome.status) == ("unsupported", "refused")
    assert line.reason == "this older torch_xla has no such kernel"
    assert [count for (_, name), count in machine.requests.items() if name == "spmd"] == [1], (
        "one request: its answer does not change"
    )


def test_a_run_whose_process_cannot_do_what_the_case_says_is_no_finding(tmp_path: Path) -> None:
    class WithoutFeature(Machine):
        """A machine on which one backend finds in its process that it cannot have a feature."""

        def answer(self, case: Case, backend: str) -> Outcome:
            if backend == "spmd":
                failure = a_failure(Symptom.CAPABILITY)
                return dataclasses.replace(failure, kind="UnsupportedError", message="no process group")
            return super().answer(case, backend)

    (progress,) = examined(a_campaign(tmp_path, WithoutFeature()))
    assert (set(progress.result.runs), progress.new) == ({"oracle", "ddp"}, ())
    (line,) = (o for o in Corpus(tmp_path).observations() if o.backend == "spmd")
    assert (line.verdict, line.outcome.status, line.reason) == ("unsupported", "refused", "no process group")


def test_a_repeat_that_fails_by_infrastructure_does_not_count_against_a_finding(tmp_path: Path) -> None:
    machine = Machine(spmd=sharded)
    campaign = a_campaign(tmp_path, machine)

    class Breaking(Corpus):
        def holds(self, fingerprint: str) -> bool:
            machine.spoiled = {"spmd": 100}  # from the moment that the first divergence is looked up
            return super().holds(fingerprint)

    broken = Campaign(
        name="one", backends=campaign.backends, execute=machine.execute, corpus=Breaking(tmp_path)
    )
    examined(broken)
    machine.spoiled = {}
    assert (the_finding(campaign).blame, the_finding(campaign).stable) == (
        "inconclusive: it could not be run again",
        (0, 0),
    )


def test_unsupported_backends_are_not_run(tmp_path: Path) -> None:
    machine = Machine(spmd=always)
    campaign = a_campaign(tmp_path, machine, {"spmd": backend("xla", "it cannot"), "ddp": backend("torch")})
    examined(campaign)
    assert {name for _, name in machine.requests} == {"oracle", "ddp"}
    lines = {o.backend: (o.verdict, o.outcome.status, o.reason) for o in campaign.corpus.observations()}
    assert lines == {
        "oracle": ("oracle", "finished", ""),
        "ddp": ("agree", "finished", ""),
        "spmd": ("unsupported", "unsupported", "it cannot"),
    }


def test_without_an_oracle_every_verdict_is_inconclusive(tmp_path: Path) -> None:
    class Blind(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            return a_failure() if backend == "oracle" else super().answer(case, backend)

    campaign = a_campaign(tmp_path, Blind(spmd=always))
    (progress,) = examined(campaign)
    assert progress.new == ()
    assert isinstance(progress.result.runs["oracle"].outcome, Failure)
    verdicts = {o.backend: (o.verdict, o.outcome.status) for o in campaign.corpus.observations()}
    assert verdicts == {
        "oracle": ("oracle", "exception"),
        "ddp": ("inconclusive", "finished"),
        "spmd": ("inconclusive", "finished"),
    }


def test_results_come_in_the_order_of_their_indices_whatever_their_timing(tmp_path: Path) -> None:
    class Uneven(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            time.sleep(0.02 if case.seed % 3 == 0 else 0.0)
            return super().answer(case, backend)

    def results(folder: str, workers: int) -> tuple[list[int], list[tuple[int, str, str]], str]:
        campaign = a_campaign(
            tmp_path / folder, Uneven(spmd=lambda case: case.seed % 2 == 1), workers=workers
        )
        progress = examined(campaign, *(tensor_parallel_case(seed=seed) for seed in range(8)))
        verdicts = [(o.index, o.backend, o.verdict) for o in campaign.corpus.observations()]
        return [p.result.index for p in progress], verdicts, the_finding(campaign).case

    assert results("four", 4) == results("one", 1)
    assert results("three", 3)[0] == list(range(8))


def test_every_nth_case_runs_twice_and_different_bits_are_a_finding(tmp_path: Path) -> None:
    class Restless(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            by = 5e-8 * self.requests[case.id, backend]
            return (
                candidate(case, wrong_at(Stage.BACKWARD, "0.weight", by=by))
                if backend == "ddp"
                else super().answer(case, backend)
            )

    cases = [a_case(seed=seed) for seed in range(4)]
    machine = Restless()
    campaign = dataclasses.replace(a_campaign(tmp_path, machine), twice_every=2)
    progress = examined(campaign, *cases)
    assert [machine.requests[case.id, "spmd"] for case in cases] == [2, 1, 2, 1]
    assert [[f.divergence.check for f in p.new] for p in progress] == [["determinism"], [], [], []]
    assert (progress[0].new[0].stable, len(progress[2].recurring)) == ((REPEATS, REPEATS), 1)


def test_no_case_runs_twice_by_default(tmp_path: Path) -> None:
    machine = Machine()
    examined(a_campaign(tmp_path, machine), a_case())
    assert machine.requests[a_case().id, "spmd"] == 1


def test_workers_that_join_during_a_campaign_are_used(tmp_path: Path) -> None:
    together = threading.Barrier(3, timeout=60)

    class Waiting(Machine):
        """A machine on which, once three workers are there, no candidate ends before three run."""

        def answer(self, case: Case, backend: str) -> Outcome:
            if case.seed and backend == "spmd":
                together.wait()
            return super().answer(case, backend)

    campaign = a_campaign(tmp_path, Waiting())
    grown = dataclasses.replace(campaign, capacity=lambda: 3 if campaign.corpus.lines("one").exists() else 1)
    progress = examined(grown, *(tensor_parallel_case(seed=seed) for seed in range(4)))
    assert [one.result.trouble for one in progress] == [""] * 4
    assert together.n_waiting == 0
