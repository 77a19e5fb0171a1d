"""The counts of comparisons: requested, completed, inconclusive, lost, refused and unsupported."""

import itertools
from collections.abc import Mapping
from pathlib import Path

import msgspec
from machines import Machine, a_campaign, backend, examined
from sample_findings import an_observation
from samples import a_failure, tensor_parallel_case

from difftest.campaign.campaign import TRIES
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.ground.errors import InfrastructureError, UnsupportedError
from difftest.judge.outcome import Outcome
from difftest.records.columns import Columns
from difftest.records.comparisons import MOST_COUNTED, OTHER_REASONS, Comparisons
from difftest.records.observation import MOST_REASON, Ending, Observation, in_short, read_observations
from difftest.records.resume import resumed


def counted(*observations: Observation) -> Comparisons:
    comparisons = Comparisons()
    comparisons.add(Columns.of(observations))
    return comparisons


def missing(name: str, status: str, reason: str = "a node was lost", **changes: object) -> Observation:
    verdict = "lost" if status == "lost" else "unsupported"
    return an_observation(0, name, verdict, outcome=Ending(status=status), reason=reason, **changes)


def test_every_line_but_the_oracles_is_counted_once_by_how_it_ended() -> None:
    counts = counted(
        an_observation(0, "oracle", "oracle", side="oracle"),
        an_observation(0, "torch_ddp", "agree"),
        an_observation(1, "torch_ddp", "diverge"),
        an_observation(2, "torch_ddp", "inconclusive", reason="step 3: NaN", reason_kind="not a number"),
        missing("torch_ddp", "lost"),
        missing("torch_ddp", "refused", "no such kernel"),
        missing("torch_ddp", "unsupported", "it cannot"),
    ).sides
    assert set(counts) == {"torch"}
    torch = counts["torch"]
    assert (torch.requested, torch.judged, torch.completed) == (5, 3, 2)
    assert (torch.inconclusive, torch.lost) == ({"not a number": 1}, {"a node was lost": 1})
    assert (torch.refused, torch.unsupported) == ({"no such kernel": 1}, {"it cannot": 1})
    assert (torch.compared_share, torch.inconclusive_share) == (3 / 5, 1 / 3)


def test_a_side_without_a_completed_comparison_has_share_0() -> None:
    comparisons = counted(
        an_observation(0, "torch_ddp", "inconclusive"), missing("xla_spmd", "unsupported", "it cannot")
    )
    comparisons.expect("tpu", "tpu_spmd")
    assert {side: counts.compared_share for side, counts in comparisons.sides.items()} == {
        "torch": 0.0,
        "tpu": 0.0,
        "xla": 0.0,
    }


def test_counts_are_kept_by_backend_and_by_path() -> None:
    comparisons = counted(
        an_observation(0, "torch_ddp"),
        an_observation(0, "torch_fsdp", path="fully_sharded"),
        missing("xla_spmd", "lost", path="fully_sharded"),
    )
    assert {name: c.requested for name, c in comparisons.backends().items()} == {
        "torch_ddp": 1,
        "torch_fsdp": 1,
        "xla_spmd": 1,
    }
    assert set(comparisons.backends("torch")) == {"torch_ddp", "torch_fsdp"}
    assert {path: c.completed for path, c in comparisons.paths.items()} == {
        "data_parallel": 1,
        "fully_sharded": 1,
    }


def test_reasons_that_differ_in_numbers_only_are_one_reason() -> None:
    lines = [missing("xla_spmd", "lost", f"rank {rank} of 8 was lost\nlog {rank}") for rank in range(3)]
    assert counted(*lines).sides["xla"].lost == {"rank # of # was lost": 3}


def test_a_long_reason_is_cut_after_a_word_and_says_so() -> None:
    short = in_short("the process that forks workers did not start: " + "word " * 50)
    assert short.endswith(" word ...")
    assert len(short) <= MOST_REASON
    assert in_short(short) == short
    assert in_short("x" * 200).endswith("x ...")


def test_reasons_without_end_are_counted_together_from_some_number_on() -> None:
    words = ["".join(letters) for letters in itertools.product("ghij", repeat=4)]
    lost = counted(*(missing("xla_spmd", "lost", word) for word in words)).sides["xla"].lost
    assert (len(lost), lost.total()) == (MOST_COUNTED + 1, len(words))
    assert lost[OTHER_REASONS] == len(words) - MOST_COUNTED


def test_a_line_of_schema_1_is_counted_by_its_reason_without_numbers() -> None:
    old = an_observation(0, "xla_spmd", "inconclusive", reason="step 3: the loss is 0.5", schema=1)
    assert counted(old).sides["xla"].inconclusive == {"step #: the loss is #": 1}


class Partial(Machine):
    """A machine whose packages refuse a backend, and which loses another."""

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """The outcome, or the error of the backend."""
        if backend == "old":
            msg = "this older torch_xla has no such kernel"
            raise UnsupportedError(msg)
        if backend == "gone":
            msg = f"a worker was lost while it ran case {case.id} on gone"
            raise InfrastructureError(msg)
        return super().execute(case, backend, options)


def test_a_campaign_has_one_line_for_every_case_and_backend(tmp_path: Path) -> None:
    backends = {
        "ddp": backend("torch"),
        "spmd": backend("xla", "it cannot"),
        "old": backend("xla"),
        "gone": backend("xla"),
    }
    campaign = a_campaign(tmp_path, Partial(), backends)
    cases = [tensor_parallel_case(seed=seed) for seed in range(3)]
    examined(campaign, *cases)
    lines = [observation for observation in campaign.corpus.observations() if observation.backend != "oracle"]
    assert sorted((line.index, line.backend) for line in lines) == [
        (index, name) for index in range(3) for name in sorted(backends)
    ]
    sides = counted(*lines).sides
    assert (sides["torch"].compared_share, sides["xla"].compared_share) == (1.0, 0.0)
    xla = sides["xla"]
    assert xla.lost == {"a worker was lost while it ran case ... on gone": 3}
    assert (xla.refused.total(), xla.unsupported) == (3, {"it cannot": 3})


def test_without_an_oracle_every_comparison_is_inconclusive_for_the_same_reason(tmp_path: Path) -> None:
    class Blind(Machine):
        def answer(self, case: Case, backend: str) -> Outcome:
            return a_failure(message=case.id) if backend == "oracle" else super().answer(case, backend)

    campaign = a_campaign(tmp_path, Blind())
    examined(campaign, *(tensor_parallel_case(seed=seed) for seed in range(3)))
    sides = counted(*campaign.corpus.observations()).sides
    assert [counts.inconclusive for counts in sides.values()] == [{"the oracle failed": 3}] * 2


def test_lost_cases_run_again_on_resume_and_then_count_once(tmp_path: Path) -> None:
    machine = Machine()
    machine.spoiled = {"oracle": TRIES}
    campaign, cases = a_campaign(tmp_path, machine), [tensor_parallel_case(seed=seed) for seed in range(2)]
    examined(campaign, *cases)
    lost = counted(*read_observations(campaign.corpus.lines("one"))).sides
    assert {side: (c.lost.total(), c.completed) for side, c in lost.items()} == {
        "torch": (1, 1),
        "xla": (1, 1),
    }
    with resumed(campaign.corpus, campaign.name) as recorded:
        assert [p.result.index for p in run(campaign, enumerate(cases), recorded)] == [0]
    whole = counted(*read_observations(campaign.corpus.lines("one")))
    assert whole.sides == recorded.comparisons.sides
    assert {side: (c.requested, c.completed) for side, c in whole.sides.items()} == {
        "torch": (2, 2),
        "xla": (2, 2),
    }


def test_a_line_without_a_run_goes_to_json_and_back() -> None:
    line = missing("xla_spmd", "refused", "no such kernel", reason_kind="no such kernel")
    assert msgspec.json.decode(msgspec.json.encode(line), type=Observation) == line
