"""The self-test: how its rates are counted, and a few planted defects that the real service detects."""

import dataclasses
import json
import operator
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from command_line import answered
from installed_packages import needs
from machines import Machine, always, backend
from samples import a_case, candidate, oracle, tensor_parallel_case, with_pieces, wrong_at

from difftest.cases.case import Case
from difftest.cases.layers import walk
from difftest.cases.layout import Replicate
from difftest.ground import plugins
from difftest.jobs.proof.correct_runs import CorrectRun, check_correct_run, null_summary, same_bits
from difftest.jobs.proof.planted_campaigns import FURTHER_CASES, Planting, chosen_defects
from difftest.jobs.proof.planted_summary import Planted, planted_summary
from difftest.jobs.proof.rates import passed
from difftest.jobs.proof.selftest_cases import SORTED, DrawnCases
from difftest.jobs.proof.sweep import detection_curve, sweep
from difftest.judge.outcome import Failure, Outcome, Sharded, Symptom, Trace
from difftest.judge.stage import Stage
from workers import faults, gpus
from workers.faults import PlantedFault

ROOT = Path(__file__).parents[2]


def planted(
    *, detected: bool = True, blame: str = "xla backend fault", floors: float | None = 100.0
) -> Planted:
    return Planted(
        defect="d",
        backend="b",
        detected=detected,
        cases=3,
        expected_blame="xla backend fault",
        blame=blame,
        floors=floors,
    )


def test_a_defect_below_ten_floors_does_not_lower_the_detection_rate() -> None:
    summary = planted_summary([planted(), planted(detected=False, blame="", floors=5.0)])
    assert (summary["defects"], summary["detected"], summary["detection_rate"], summary["blame_rate"]) == (
        2,
        1,
        1.0,
        1.0,
    )


def test_a_wrong_blame_lowers_only_the_blame_rate() -> None:
    for blame in ("xla sharding fault", "torch backend fault", "shared backend fault"):
        summary = planted_summary([planted(), planted(blame=blame)])
        assert (summary["detection_rate"], summary["blame_rate"]) == (1.0, 0.5)
        assert (summary["detected"], summary["blamed"]) == (2, 1)


def test_an_undetected_defect_lowers_the_detection_rate() -> None:
    assert (
        planted_summary([planted(), planted(detected=False, blame="", floors=None)])["detection_rate"] == 0.5
    )


def test_fingerprints_that_merge_or_split_defects_are_listed() -> None:
    one = dataclasses.replace(planted(), hits=(("dp", "f"), ("dp", "f"), ("tp", "g")))
    other = dataclasses.replace(planted(), defect="e", hits=(("dp", "f"), ("dp", "h"), ("tp", "i")))
    fingerprints = planted_summary([one, other, planted(detected=False)])["fingerprints"]
    assert (fingerprints["purity"], fingerprints["completeness"]) == (0.75, 0.75)
    assert fingerprints["merged"] == {"f": ["d", "e"]}
    assert fingerprints["split"] == {"e on b, dp": ["f", "h"]}
    assert planted_summary([planted()])["fingerprints"]["purity"] is None


@pytest.mark.parametrize(("merged", "passes"), [(1, True), (2, False)])
def test_fingerprints_that_merge_more_than_a_twentieth_of_many_defects_fail(
    merged: int, *, passes: bool
) -> None:
    names = [*range(30), *range(merged)]
    every = [
        dataclasses.replace(planted(), defect=f"{n}", hits=(("dp", f"{name}"),))
        for n, name in enumerate(names)
    ]
    assert passed({"planted": planted_summary(every)}) is passes
    assert passed({"planted": planted_summary([every[0], every[30]])}), "two defects are too few to fail"


def test_one_defect_on_two_backends_is_two_findings() -> None:
    one, other = (
        dataclasses.replace(planted(), backend=name, hits=(("dp", f"{name}-f"),)) for name in ("b", "c")
    )
    fingerprints = planted_summary([one, other])["fingerprints"]
    assert (fingerprints["purity"], fingerprints["completeness"]) == (1.0, 1.0)


def test_a_correct_run_and_its_correct_variant_make_no_false_finding() -> None:
    case = a_case()
    row = check_correct_run(
        case, "ddp", "torch", oracle(case), candidate(case, None), {"again": candidate(case, None)}
    )
    assert (row.false, row.deterministic) == ((), True)


def test_a_variant_that_fails_alone_is_a_false_finding() -> None:
    case = a_case()
    failure = Failure(symptom=Symptom.CRASH, stage=Stage.FORWARD, step=0, kind="SIGSEGV")
    row = check_correct_run(case, "ddp", "torch", oracle(case), candidate(case, None), {"again": failure})
    assert row.false
    assert null_summary([row])["false_findings"] == 1


def test_failing_in_every_variant_is_no_false_finding() -> None:
    case = a_case()
    failure = Failure(symptom=Symptom.EXCEPTION, stage=Stage.FORWARD, step=0, kind="RuntimeError")
    assert check_correct_run(case, "ddp", "torch", oracle(case), failure, {"again": failure}).false == ()
    assert same_bits(failure, failure)


def test_a_hang_in_every_variant_is_a_false_finding_unless_it_is_in_the_ledger() -> None:
    """A machine that is only slow makes runs look like that."""
    case = a_case()
    hang = Failure(symptom=Symptom.HANG, stage=Stage.FORWARD, step=0, kind="hang")
    arguments = (case, "ddp", "torch", oracle(case), hang, {"again": hang})
    assert check_correct_run(*arguments).false
    in_ledger = check_correct_run(*arguments, entry=lambda divergence: divergence.symptom == Symptom.HANG)
    assert (in_ledger.false, bool(in_ledger.own)) == ((), True)


def test_a_large_error_is_a_frameworks_own_and_a_references_only_if_the_ledger_has_it() -> None:
    case = a_case()
    truth = oracle(case)
    wrong = candidate(case, lambda _step, _key, value: 2.0 * value)
    framework = check_correct_run(case, "ddp", "torch", truth, wrong, {})
    assert (framework.false, bool(framework.own)) == ((), True)
    assert check_correct_run(case, "definitions", "definition", truth, wrong, {}).false
    in_ledger = check_correct_run(case, "definitions", "definition", truth, wrong, {}, entry=lambda _: True)
    assert (in_ledger.false, bool(in_ledger.own)) == ((), True)


def test_the_null_campaign_passes_only_if_most_cases_were_checked() -> None:
    rows = [
        check_correct_run(case, "ddp", "torch", oracle(case), candidate(case), {})
        for case in (a_case(seed=seed) for seed in range(19))
    ]
    assert passed({"null": null_summary(rows, unchecked=["the oracle failed"])})
    assert not passed({"null": null_summary(rows[1:], unchecked=["the oracle failed"])})
    assert not passed({"null": null_summary([], unchecked=["the oracle failed"])})


def test_an_error_beyond_rounding_in_every_variant_is_an_upstream_fault() -> None:
    case = a_case()
    wrong = candidate(case, wrong_at(Stage.BACKWARD, "0.weight"))
    row = check_correct_run(case, "ddp", "torch", oracle(case), wrong, {"again": wrong})
    assert (row.false, bool(row.own), row.ratio) == ((), True, 0.0)
    odd = check_correct_run(case, "ddp", "torch", oracle(case), candidate(case), {"again": wrong})
    assert odd.false
    assert not odd.own


def test_copies_that_differ_are_false_findings_unless_they_are_in_the_ledger() -> None:
    case, key = a_case(), (Stage.UPDATE, "0.bias")
    apart = with_pieces(candidate(case), 0, key, {1: candidate(case).steps[0][key].pieces[1] + 1e-9})
    assert check_correct_run(case, "ddp", "torch", oracle(case), apart, {"again": apart}).false
    in_ledger = check_correct_run(
        case,
        "ddp",
        "torch",
        oracle(case),
        apart,
        {"again": apart},
        entry=lambda divergence: divergence.check == "replicas",
    )
    assert (in_ledger.false, bool(in_ledger.own)) == ((), True)


def test_a_small_error_is_a_false_finding_unless_it_is_in_the_ledger() -> None:
    case = a_case()
    wrong = candidate(case, wrong_at(Stage.BACKWARD, "0.weight", by=1e-5))
    assert check_correct_run(case, "ddp", "torch", oracle(case), wrong, {"again": wrong}).false
    in_ledger = check_correct_run(
        case,
        "ddp",
        "torch",
        oracle(case),
        wrong,
        {"again": wrong},
        entry=lambda divergence: "mismatch" in divergence.fingerprint,
    )
    assert (in_ledger.false, bool(in_ledger.own)) == ((), True)


def test_the_detection_rate_increases_with_the_error() -> None:
    case = a_case()
    curve = detection_curve(sweep(oracle(case), case.unsharded().layout.mesh, 30, 0))
    assert curve[min(curve)] == 0.0
    assert curve[max(curve)] == 1.0
    assert list(np.sort(list(curve.values()))) == list(curve.values())


@pytest.mark.parametrize(("shape", "dtype"), [((0, 3), "float32"), ((2,), "int64")])
def test_only_elements_that_round_get_errors(shape: tuple[int, ...], dtype: str) -> None:
    case, key = a_case(), (Stage.FORWARD, "0.output")
    mesh = case.unsharded().layout.mesh
    placements = tuple(Replicate() for _ in mesh.axes)
    tensor = Sharded(shape=shape, dtype=dtype, placements=placements, pieces={0: np.zeros(shape)})
    assert list(sweep(Trace(steps=({key: tensor},), noise=({key: tensor},)), mesh, 30, 0)) == []


def test_an_empty_null_campaign_has_zero_counts() -> None:
    assert null_summary([]) | {"ratio_quantiles": None, "beyond": None} == {
        "cases": 0,
        "unchecked": [],
        "runs": 0,
        "false_findings": 0,
        "greatest_ratio": 0.0,
        "beyond": None,
        "ratio_quantiles": None,
        "oracle_cost": None,
        "not_deterministic": 0,
        "upstream_faults": {},
        "by_false_finding": [],
    }
    assert CorrectRun.__doc__


def test_the_oracles_cost_is_a_ratio_to_the_xla_run_of_the_same_case() -> None:
    row = check_correct_run(a_case(), "xla_spmd", "xla", oracle(a_case()), candidate(a_case()), {})
    timed = [dataclasses.replace(row, seconds=2.0, oracle_seconds=seconds) for seconds in (1.0, 1.0, 4.0)]
    other = dataclasses.replace(row, backend="torch_ddp", seconds=1.0, oracle_seconds=9.0)
    assert null_summary([*timed, other], ["xla_spmd"])["oracle_cost"] == 0.5


def a_fault(name: str, least_gpus: int = 0) -> PlantedFault:
    return PlantedFault(
        name=name,
        about="",
        backends=("b", "c"),
        blame=faults.BACKEND,
        reaches=lambda _: True,
        plant=lambda session, *_: session,
        least_gpus=least_gpus,
    )


@pytest.mark.parametrize(
    ("there", "names", "chosen"),
    [
        (0, "", ["plain"]),
        (1, "", ["plain"]),
        (2, "", ["plain", "on_gpus"]),
        (1, "on_gpus", ["on_gpus"]),
        (4, "plain,", ["plain"]),
    ],
)
def test_a_defect_that_needs_more_gpus_is_planted_only_by_name(
    monkeypatch: pytest.MonkeyPatch, there: int, names: str, chosen: list[str]
) -> None:
    faults_ = (a_fault("plain"), a_fault("on_gpus", least_gpus=2))
    monkeypatch.setattr(faults, "all_faults", lambda: {fault.name: fault for fault in faults_})
    monkeypatch.setattr(gpus, "gpu_count", lambda: there)
    assert [(fault.name, backend) for fault, backend in chosen_defects(names)] == [
        (name, backend) for name in chosen for backend in ("b", "c")
    ]


@pytest.mark.parametrize(("twins_of", "cases"), [("", 1 + FURTHER_CASES), ("features", 1)])
def test_a_fault_of_torch_itself_is_searched_for_in_no_further_case(twins_of: str, cases: int) -> None:
    fault = dataclasses.replace(a_fault("a"), backends=("ddp",), twins_of=twins_of)
    seeds = set[int]()

    def wrong(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        seeds.add(case.seed)
        return Machine(ddp=always).execute(case, backend, options)

    ddp = backend("torch")
    ddp.PROFILE = SimpleNamespace(stands_for_side=False)
    searched = Planting(
        backends={"ddp": ddp},
        cases=lambda _: (tensor_parallel_case(seed=seed) for seed in range(8)),
        most=8,
        execute=wrong,
        correct=Machine().execute,
    ).find((fault, "ddp"))
    assert searched.detected
    assert len(searched.hits) == (0 if twins_of else cases)
    assert len(seeds) == cases if twins_of else len(seeds) >= cases


def test_the_least_of_the_first_cases_comes_first_where_a_fault_is_of_torch_itself() -> None:
    fault = dataclasses.replace(a_fault("a"), paths=("features",))
    cases = DrawnCases(seed=0, paths=(), max_world_size=2)
    plain = list(cases.showing(8, fault))
    least = list(cases.showing(8, dataclasses.replace(fault, twins_of="features")))
    assert sorted(case.id for case in plain) == sorted(case.id for case in least)
    passes = [case.training.steps * case.training.accumulation for case in least[:SORTED]]
    layers = [sum(layer.complexity for _, layer in walk(case.model.layers)) for case in least[:SORTED]]
    work = list(map(operator.mul, passes, layers))
    assert work == sorted(work)
    assert plain[SORTED:] == least[SORTED:]


def test_a_planted_fault_has_the_unique_name_of_its_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing_wrong(session: Any, _case: Case, _rank: int) -> Any:  # noqa: ANN401
        return session

    fault = faults.planted(about="", backends=("b",), blame=faults.BACKEND)(nothing_wrong)
    assert fault.reaches(a_case())
    monkeypatch.setattr(plugins, "names", lambda _package: ("one",))
    monkeypatch.setattr(plugins, "load", lambda *_: SimpleNamespace(FAULT=fault))
    assert faults.all_faults.__wrapped__() == {"nothing_wrong": fault}
    monkeypatch.setattr(plugins, "names", lambda _package: ("one", "another"))
    with pytest.raises(ValueError, match="nothing_wrong"):
        faults.all_faults.__wrapped__()


@pytest.mark.slow
@pytest.mark.xla
def test_a_planted_defect_is_blamed_and_the_null_campaign_has_no_false_finding() -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    needs("ray", reason="needs ray: pip install 'difftest[cluster]'")
    from without_ray import without_ray  # noqa: PLC0415  it imports Ray

    where = ("--paths", "data_parallel", "--backends", "torch_ddp,xla_ddp", "--max-world-size", "2")
    how = ("--defects", "parameter_left_out", "--cases", "3", "--seed", "19")
    with without_ray():
        status, result = answered("selftest", *how, *where)
    assert status == 0
    assert result["planted"]["detected"] == result["planted"]["defects"] == 2
    assert result["planted"]["blame_rate"] == 1.0
    assert result["null"]["runs"]
    assert result["null"]["false_findings"] == 0


@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.nightly
def test_planted_defects_are_detected_and_blamed() -> None:
    defects = (
        "nan_on_one_rank,parameter_left_out,sum_for_mean,clipped_by_piece,segments_of_other_shard,"
        "gradient_negated,collective_factor_dropped"
    )
    summary = measured("--planted", "--defects", defects, "--cases", "60")["planted"]
    assert summary["detected"] == summary["defects"]
    assert summary["blame_rate"] == 1.0


def measured(*words: str) -> dict[str, Any]:
    """What `difftest selftest --json` measures, which must end in 0."""
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    command = (sys.executable, "-m", "difftest", "selftest", *words, "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(done.stdout))
