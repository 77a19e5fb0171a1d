"""Ablations: what each one changes and what its result means, on made-up runs; one finding on real runs."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from installed_packages import needs
from machines import WRONG, Machine, a_campaign, backend, examined, sharded, the_finding
from samples import DEEP, a_case, a_failure, candidate, oracle, tensor_parallel_case

from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case, Training
from difftest.cases.flags import SAME_PRECISION, UNOPTIMISED
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.linear import Linear
from difftest.cases.options import Spelling, Start
from difftest.commands.ablate import command
from difftest.findings.ablate import BENIGN, CHANGES, DISAPPEARS, STAYS, ablate
from difftest.findings.ablations import Ablation, Baseline, ablations
from difftest.ground.errors import InfrastructureError
from difftest.judge.outcome import Outcome, Symptom
from difftest.records.corpus import Corpus
from difftest.records.evidence import UNDECIDED
from difftest.records.finding import Finding
from workers.backends import candidates

FUSION = f"{SAME_PRECISION} --xla_disable_hlo_passes=fusion"
ON_XLA = {"XLA_FLAGS": SAME_PRECISION}
FRAMEWORKS = {"xla": "torch_xla", "torch": "torch"}
ON_TORCH_XLA = backend("xla", framework="torch_xla")


def ablations_of(case: Case, side: str, **rest: object) -> dict[str, Ablation]:
    on = {
        "backend": f"{side}_one",
        "side": side,
        "framework": FRAMEWORKS[side],
        "siblings": (f"{side}_other",),
    }
    results = ablations(Baseline(case=case, **(on | rest)))  # type: ignore[arg-type]
    return {result.name: result for result in results}


class Answers(Machine):
    """A machine whose backend `spmd` is wrong, except under the changes that a test names."""

    def __init__(self, **answers: object) -> None:
        super().__init__(spmd=lambda _case: True)
        self.answers, self.executed = answers, list[tuple[str, Mapping[str, str]]]()

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """The outcome; correct if `answers` name an option of the run, its value or the case's dtype."""
        self.executed.append((backend, options))
        for name in (*options, *options.values(), case.dtype):
            if backend != "oracle" and isinstance(answer := self.answers.get(name), Exception):
                raise answer
            if backend != "oracle" and name in self.answers:
                return candidate(case) if answer is None else answer  # type: ignore[return-value]
        return super().execute(case, backend, options)


def answers(root: Path, machine: Machine, environment: Mapping[str, str] = ON_XLA) -> Mapping[str, str]:
    campaign, finding, case = campaign_with_finding(root, machine)
    results = ablate(campaign, finding, case, environment)
    assert results is not None
    return results


def campaign_with_finding(root: Path, machine: Machine) -> tuple[Campaign, Finding, Case]:
    campaign = a_campaign(
        root,
        machine,
        {"spmd": ON_TORCH_XLA, "other": backend("xla", "it is another"), "ddp": backend("torch")},
    )
    examined(campaign, tensor_parallel_case())
    finding = next(one for one in campaign.corpus.findings() if one.divergence.backend == "spmd")
    return campaign, finding, campaign.corpus.simplest(finding.fingerprint)


def test_each_ablation_changes_one_thing() -> None:
    case = tensor_parallel_case()
    results = ablations_of(case, "xla", environment=ON_XLA)
    alone = results["it runs on one device, unsharded"]
    assert alone.case == case.unsharded()
    one_rank = results["every mesh axis has one rank"].case
    assert (one_rank.world_size, one_rank.layout.parameters) == (1, case.layout.parameters)
    whole = results["every parameter is replicated"].case
    assert (whole.world_size, whole.layout.batch) == (2, case.layout.batch)
    assert "every parameter is replicated" not in ablations_of(a_case(), "xla"), (
        "nothing is sharded but the batch"
    )
    assert results["xla_other runs it"].backend == "xla_other"
    assert {results[f"the dtype is {dtype}"].case.dtype for dtype in ("bfloat16", "float16")} == {
        "bfloat16",
        "float16",
    }
    for ablation in results.values():
        changed = (
            (ablation.case != case)
            + (ablation.backend != "xla_one")
            + bool(ablation.options)
            + bool(ablation.reason)
        )
        assert changed == 1, ablation


def test_gspmd_partitions_in_turn_what_jax_runs_on_several_devices() -> None:
    name, on_jax = "GSPMD partitions, as under torch_xla, and not Shardy", {"JAX_PLATFORMS": "cpu"}
    case = tensor_parallel_case()
    shown = ablations_of(case, "xla", framework="torchax", environment=on_jax)[name]
    assert (shown.case, shown.options) == (case, {"JAX_USE_SHARDY_PARTITIONER": "0"})
    assert name not in ablations_of(case, "xla", environment=ON_XLA)
    assert name not in ablations_of(case.unsharded(), "xla", framework="torchax", environment=on_jax)


def test_flags_are_appended_to_those_of_the_run() -> None:
    results = ablations_of(a_case(), "xla", environment=ON_XLA)
    assert results["XLA's backend does not optimise"].options == {
        "XLA_FLAGS": f"{SAME_PRECISION} {UNOPTIMISED}"
    }
    assert (
        results["XLA's pass algsimp is disabled"]
        .options["XLA_FLAGS"]
        .endswith(" --xla_disable_hlo_passes=algsimp")
    )
    assert results["functionalization is off"].options == {"XLA_DISABLE_FUNCTIONALIZATION": "1"}


def test_an_ablation_that_changes_nothing_has_a_reason_instead() -> None:
    results = ablations_of(a_case(), "xla", environment=ON_XLA)
    assert results["no excess precision is allowed"].reason == "every run forbids it"
    allowing = ablations_of(a_case(), "xla")["no excess precision is allowed"]
    assert (allowing.options, bool(allowing.benign)) == ({"XLA_FLAGS": SAME_PRECISION}, True)
    assert results["the client is synchronous"].case.start.asynchronous is False
    always = ablations_of(a_case(), "xla", environment={"PJRT_CPU_ASYNC_CLIENT": "false"})[
        "the client is synchronous"
    ]
    assert always.reason == "that of xla_one always is"
    synchronous = a_case(start=Start(asynchronous=False))
    assert ablations_of(synchronous, "xla", environment={"PJRT_CPU_ASYNC_CLIENT": "false"})[
        "the client is asynchronous"
    ].case.start.asynchronous


def test_torchax_has_no_ablations_of_options_that_torch_xla_reads() -> None:
    results = ablations_of(a_case(), "xla", framework="torchax", environment=ON_XLA)
    assert not any("client" in name or "functionalization" in name for name in results)
    assert {"fast math is off", "matrices are multiplied in default precision"} < set(results)


def test_torch_has_ablations_of_threads_and_kernels() -> None:
    results = ablations_of(a_case(), "torch")
    assert results["an operator has two threads"].options == {"DIFFTEST_THREADS": "2"}
    assert results["oneDNN's kernels are off"].benign
    assert not any("XLA" in name or "client" in name for name in results)
    flash = (FlashAttention(width=4, heads=1, head_dim=4, length=4, keys=4), Linear(inputs=4, outputs=2))
    assert "attention uses the math kernel" not in results
    assert "attention uses the math kernel" in ablations_of(a_case(flash, sequence=4), "torch")


def test_an_ablation_says_whether_the_finding_stays_changes_or_disappears(tmp_path: Path) -> None:
    lost = InfrastructureError("a node was lost")
    machine = Answers(**{FUSION: None}, float16=a_failure(), XLA_DISABLE_FUNCTIONALIZATION=lost)
    results = answers(tmp_path, machine)
    assert results["XLA's pass fusion is disabled"] == DISAPPEARS
    assert results["the dtype is float16"].startswith(f"{CHANGES}: spmd-completion-exception-")
    assert results["XLA's backend does not optimise"].startswith(f"{STAYS}, ")
    assert results["functionalization is off"] == f"{UNDECIDED}: a node was lost"
    assert results["other runs it"] == f"{UNDECIDED}: it is another"
    assert "ddp runs it" not in results, "the other side is no sibling"
    assert not any("XLA_FLAGS" in options for name, options in machine.executed if name == "oracle")


def test_an_ablation_that_ran_on_another_device_is_undecided(tmp_path: Path) -> None:
    class FewCards(Answers):
        """A machine with a GPU for one rank, and not for two."""

        def answer(self, case: Case, backend: str) -> Outcome:
            device = "NVIDIA H200" if case.world_size == 1 else "cpu"
            return dataclasses.replace(super().answer(case, backend), environment={"device": device})

    results = answers(tmp_path, FewCards())
    assert (
        results["it runs on one device, unsharded"]
        == f"{UNDECIDED}: it ran on NVIDIA H200, the finding on cpu"
    )
    assert results["XLA's backend does not optimise"].startswith(STAYS)


def test_a_slight_error_that_disappears_with_a_benign_cause_is_benign(tmp_path: Path) -> None:
    flags = f"{SAME_PRECISION} --xla_cpu_enable_fast_math=false --xla_cpu_enable_fast_min_max=false"
    assert answers(tmp_path / "great", Answers(**{flags: None}))["fast math is off"] == DISAPPEARS, (
        "no rounding is so large"
    )

    class Slight(Answers):
        def answer(self, case: Case, backend: str) -> Outcome:
            wrong = candidate(case, lambda _step, _key, value: value * (1 + 3e-6))
            return oracle(case) if backend == "oracle" else wrong

    assert BENIGN in answers(tmp_path / "slight", Slight(**{flags: None}))["fast math is off"]


def test_an_intermittent_finding_disappears_only_if_no_rerun_shows_it(tmp_path: Path) -> None:
    class Flaky(Answers):
        def answer(self, case: Case, backend: str) -> Outcome:
            often = self.requests[case.id, backend] % 3 == 1
            return (
                oracle(case)
                if backend == "oracle"
                else candidate(case, WRONG if often or backend != "spmd" else None)
            )

    campaign, finding, case = campaign_with_finding(tmp_path, Flaky())
    assert finding.stable[0] < finding.stable[1]
    results = ablate(campaign, finding, case, ON_XLA)
    assert results is not None
    assert results["XLA's backend does not optimise"].startswith(STAYS)


def test_a_finding_that_its_case_does_not_reproduce_is_not_ablated(tmp_path: Path) -> None:
    machine = Answers()
    campaign, finding, case = campaign_with_finding(tmp_path, machine)
    machine.wrong = {}
    assert ablate(campaign, finding, case, ON_XLA) is None


def test_findings_without_the_field_ablations_are_read(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, Machine(spmd=sharded))
    examined(campaign)
    finding = the_finding(campaign)
    old = {
        name: value
        for name, value in json.loads(finding.to_json()).items()
        if name not in {"ablations", "located"}
    }
    assert Finding.from_json(json.dumps(old)) == finding
    kept = campaign.corpus.amend(
        finding.fingerprint, ablations={"fast math is off": STAYS}, located=("forward: here",)
    )
    assert campaign.corpus.finding(finding.fingerprint) == kept


@pytest.mark.slow
@pytest.mark.nightly
def test_the_clipped_norm_of_partial_sums_needs_sharding_and_dtensor(tmp_path: Path) -> None:
    needs("torch", reason="needs torch")
    needs("ray", reason="needs ray: pip install 'difftest[cluster]'")
    from without_ray import without_ray  # noqa: PLC0415  it imports Ray

    from difftest.jobs.filing.reproduction import observe  # noqa: PLC0415
    from workers.isolate import sandbox  # noqa: PLC0415

    case = a_case(DEEP, training=Training(clip_norm=0.25))
    campaign = Campaign(
        name="real",
        backends=candidates(("torch_ddp", "torch_dtensor")),
        execute=lambda case, name, options: sandbox.run(case, name, options=options),
        corpus=Corpus(tmp_path),
        workers=1,
    )
    campaign.corpus.prepare()
    examined(campaign, case)
    finding = the_finding(campaign)
    assert (finding.divergence.backend, finding.divergence.symptom) == ("torch_dtensor", Symptom.MISMATCH)
    assert not isinstance(observe(finding, case), str)
    words = [str(tmp_path / finding.fingerprint), "--workers", "1", "--json"]
    with without_ray():
        done = CliRunner().invoke(command, words, standalone_mode=False)
    changes = json.loads(done.stdout)["ablations"]
    assert changes["it runs on one device, unsharded"] == changes["torch_ddp runs it"] == DISAPPEARS
    assert changes["the dtype is bfloat16"].startswith(STAYS)
    kept = msgspec.json.decode((tmp_path / finding.fingerprint / "finding.json").read_bytes(), type=dict)
    assert kept["ablations"] == changes


def test_each_usual_form_of_a_case_is_taken_away_alone() -> None:
    spelled = a_case(spelling=Spelling(torch_loss=True, host_backward=True))
    without = {name: one.case for name, one in ablations_of(spelled, "xla").items() if "form" in name.split()}
    assert without == {
        "the program does not take the form torch_loss": a_case(spelling=Spelling(host_backward=True)),
        "the program does not take the form host_backward": a_case(spelling=Spelling(torch_loss=True)),
    }
    assert not any("form" in name.split() for name in ablations_of(a_case(), "xla"))
