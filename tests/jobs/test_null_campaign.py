"""The null campaign's runs: the backends and variants of a case, and the checks before a false finding."""

import json
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any

import numpy as np
import program_traces
import pytest
from click.testing import CliRunner
from machines import WRONG, backend
from program_traces import RESULT
from sample_programs import a_program, an_operator
from samples import a_case, a_failure, candidate, oracle, wrong_at

from difftest.campaign.campaign import ORACLE
from difftest.campaign.confirmation import MORE_SAMPLES
from difftest.cases import flags
from difftest.cases.case import Case
from difftest.cases.options import Replication
from difftest.commands import selftest
from difftest.findings.ledger import Entry, Ledger
from difftest.ground.errors import InfrastructureError, StoppedError
from difftest.jobs.proof.correct_runs import CorrectRun, check_correct_run
from difftest.jobs.proof.null_campaign import CaseCheck, NullCampaign, check_all
from difftest.jobs.proof.selftest_cases import DrawnCases
from difftest.judge.outcome import Outcome
from difftest.judge.stage import Stage
from generators.cases import case_at
from workers import sides

Request = tuple[str, Mapping[str, str]]


def backends() -> dict[str, Any]:
    """Two backends of one side, one of the other."""
    modules: dict[str, Any] = {"dp": backend("torch"), "fsdp": backend("torch"), "spmd": backend("xla")}
    for module in modules.values():
        module.PROFILE = sides.TORCH if module.SIDE == "torch" else sides.XLA
    return modules


@pytest.fixture
def requests() -> list[Request]:
    return []


def campaign(requests: list[Request], *, wrong: str = "", oracle_fails: bool = False) -> NullCampaign:
    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        requests.append((name, options))
        if name == ORACLE:
            return a_failure() if oracle_fails else oracle(case)
        return candidate(case, WRONG if name == wrong and options else None)

    return NullCampaign(execute=execute, backends=backends(), ledger=Ledger())


@pytest.mark.parametrize(("seed", "chosen"), [(0, "dp"), (1, "fsdp")])
def test_the_seed_chooses_one_backend_of_each_side(requests: list[Request], seed: int, chosen: str) -> None:
    check = campaign(requests).check((0, a_case(seed=seed)))
    assert [row.backend for row in check.rows] == [chosen, "spmd"]
    assert [name for name, _ in requests] == [ORACLE, chosen, chosen, "spmd", "spmd"]
    assert not any(row.false for row in check.rows)
    assert check.errors


def test_the_variant_alternates_with_the_index_of_the_case(requests: list[Request]) -> None:
    for index in range(3):
        campaign(requests).check((index, a_case()))
    variants = [options for name, options in requests if name == "dp"][1::2]
    assert variants == [variant.environment for variant in sides.TORCH.variants]


def test_only_every_so_many_th_case_runs_as_a_variant(requests: list[Request]) -> None:
    seldom = replace(campaign(requests), vary_every=2)
    checks = [seldom.check((index, a_case())) for index in range(2)]
    assert [[row.variants for row in check.rows] for check in checks] == [[1, 1], [0, 0]]
    assert [name for name, _ in requests] == [ORACLE, "dp", "dp", "spmd", "spmd", ORACLE, "dp", "spmd"]


def test_the_variant_of_xla_s_compiler_is_the_effort_that_the_case_has_not() -> None:
    """Two cases in a row, so one of both variants: the same again, and the other effort."""
    ran = list[bool]()

    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        if name == "spmd":
            assert not options
            ran.append(case.forms.unoptimised)
        return oracle(case) if name == ORACLE else candidate(case, None)

    for case in (a_case(), flags.of_other_effort(a_case())):
        for index in range(2):
            NullCampaign(execute=execute, backends=backends(), ledger=Ledger()).check((index, case))
    assert ran == [False, False, False, True, True, True, True, False]


def test_a_false_finding_must_persist_with_more_noise_samples(requests: list[Request]) -> None:
    check = campaign(requests, wrong="dp").check((1, a_case()))
    assert [bool(row.false) for row in check.rows] == [True, False]
    assert requests[-1] == (ORACLE, MORE_SAMPLES)


def test_a_fault_whose_entry_names_the_option_that_decides_is_no_false_finding(
    requests: list[Request],
) -> None:
    case, slightly = (
        a_case(replication=Replication(bucket_cap_mb=1.0)),
        wrong_at(Stage.BACKWARD, "0.weight", 1e-5),
    )
    known = Entry(
        fingerprint="*",
        upstream="",
        reason="",
        expires=date(9999, 1, 1),
        decided_by="replication.bucket_cap_mb=1.0",
    )

    def execute(run: Case, name: str, options: Mapping[str, str]) -> Outcome:
        requests.append((name, options))
        if name == ORACLE:
            return oracle(run)
        return candidate(run, slightly if name == "dp" and run.replication.bucket_cap_mb else None)

    def rows(*entries: Entry) -> tuple[CorrectRun, ...]:
        own = NullCampaign(execute=execute, backends=backends(), ledger=Ledger(entries=entries))
        return own.check((0, case)).rows

    assert [bool(row.false) for row in rows()] == [True, False]
    assert [bool(row.false) for row in rows(known)] == [False, False]
    assert [bool(row.own) for row in rows(known)] == [True, False]


@pytest.mark.long
def test_an_interrupted_null_campaign_shows_what_it_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Request] = []
    answer = campaign(requests).execute

    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        if len(requests) >= 12:
            raise StoppedError("interrupted", status=130)  # noqa: EM101  as the connection raises it
        return answer(case, name, options)

    cluster = SimpleNamespace(execute=execute, execute_group=None, backends=backends(), workers=1)
    monkeypatch.setattr(selftest, "on_cluster", lambda *_args, **_options: nullcontext(cluster))
    apart = (a_case(mesh=(("dp", 1 + number % 2),), seed=number) for number in range(20))
    monkeypatch.setattr(DrawnCases, "numbered", lambda *_: enumerate(apart))
    ran = CliRunner().invoke(selftest.command, ["--null", "--json"], standalone_mode=False)
    assert ran.return_value == 130
    null = json.loads(ran.stdout)["null"]
    told = re.search(r"interrupted after (\d+) cases; with --after (\d+) the same command", ran.stderr)
    assert told
    assert int(told[2]) <= int(told[1]) == null["cases"]
    assert 0 < null["cases"] < 20
    assert null["false_findings"] == 0


def test_a_case_that_takes_long_keeps_no_other_one_back(requests: list[Request]) -> None:
    first, others, stop = a_case(seed=1), [a_case(seed=seed) for seed in range(2, 8)], threading.Event()

    class Slow(NullCampaign):
        def check_group(self, numbered: Sequence[tuple[int, Case]]) -> list[CaseCheck]:
            if numbered[0][1] == first:
                assert stop.wait(60)
                raise StoppedError("interrupted", status=130)  # noqa: EM101  as the connection raises it
            stop.set() if numbered[0][1] == others[-1] else None
            return super().check_group(numbered)

    slow = Slow(execute=campaign(requests).execute, backends=backends(), ledger=Ledger())
    groups = [[(number, case)] for number, case in enumerate([first, *others])]
    checks, stopped = check_all(slow, groups, workers=1, after=10)
    assert len(checks) >= len(others) - 1
    assert f"interrupted after {10 + len(checks)} cases; with --after 10 " in str(stopped)


@pytest.mark.long  # planted faults import torch
def test_an_interrupted_search_for_defects_says_that_it_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_cluster(*_: object, **_options: object) -> None:
        raise StoppedError("interrupted", status=130)  # noqa: EM101  as the connection raises it

    monkeypatch.setattr(selftest, "on_cluster", on_cluster)
    ran = CliRunner().invoke(
        selftest.command, ["--planted", "--defects", "nan_on_one_rank"], standalone_mode=False
    )
    assert (ran.return_value, ran.stderr) == (130, "interrupted; the same command starts over\n")


def test_what_torch_leaves_open_is_no_false_finding() -> None:
    case = a_program(an_operator("argsort", undefined="the order of ties"))
    truth = program_traces.oracle(case, {RESULT: np.arange(12.0).reshape(4, 3)})
    other = program_traces.trace(case, {RESULT: np.ones((4, 3))})
    row = check_correct_run(case, "ddp", "torch", truth, other, {"again": other})
    assert (row.false, bool(row.own)) == ((), True)


def test_nothing_is_checked_if_the_oracle_fails(requests: list[Request]) -> None:
    check = campaign(requests, oracle_fails=True).check((0, a_case()))
    assert (check.rows, check.errors, len(requests)) == ((), (), 1)
    assert check.unchecked.startswith(f"case {a_case().id}: the oracle failed")


def test_a_backend_that_cannot_do_what_the_case_says_has_no_row(requests: list[Request]) -> None:
    plain = campaign(requests)

    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        if name == "spmd":
            return replace(a_failure(), kind="UnsupportedError", message="no process group")
        return plain.execute(case, name, options)

    check = replace(plain, execute=execute).check((0, a_case()))
    assert ([row.backend for row in check.rows], check.unchecked) == (["dp"], "")


def test_the_cases_are_those_of_a_campaign_with_its_blocks() -> None:
    paths = ("blocks", "features", "modules")
    cases = list(DrawnCases(seed=1, paths=paths, max_world_size=8).numbered(2))
    assert [case.path for _, case in cases] == ["modules", "modules", "blocks", "features"]
    usual = [case for _, case in DrawnCases(seed=1, paths=(), max_world_size=2).numbered(3)]
    assert usual == [case_at(1, index, max_world_size=2) for index in range(3)]
    assert max(case.world_size for case in usual) <= 2
    assert list(DrawnCases(seed=1, paths=paths, max_world_size=8).numbered(2, after=3)) == [(1, cases[3][1])]


def test_a_case_that_the_infrastructure_fails_is_unchecked_and_ends_no_campaign() -> None:
    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        raise InfrastructureError("a node was lost")  # noqa: EM101, TRY003

    check = NullCampaign(execute=execute, backends=backends(), ledger=Ledger()).check((0, a_case()))
    assert (check.rows, check.unchecked) == ((), f"case {a_case().id}: a node was lost")


@pytest.mark.long
def test_the_runs_of_a_group_share_processes_and_each_case_has_its_own_check(requests: list[Request]) -> None:
    numbered = [(index, a_case(seed=index)) for index in range(3)]
    alone = [campaign(requests).check(one) for one in numbered]
    together = list[tuple[str, int]]()
    requests.clear()

    def execute_group(
        runs: Sequence[tuple[Case, str]], options: Mapping[str, str]
    ) -> list[Outcome | InfrastructureError]:
        cases, name = [case for case, _ in runs], runs[0][1]
        together.append((name, len(cases)))
        if name == "spmd" and cases[0].forms.unoptimised:
            return [InfrastructureError("a node was lost") for _ in cases]
        return [oracle(case) if name == ORACLE else candidate(case, None) for case in cases]

    checks = replace(campaign(requests), execute_group=execute_group).check_group(numbered)
    assert [[(row.case, row.backend, row.false) for row in check.rows] for check in checks] == [
        [(row.case, row.backend, row.false) for row in check.rows] for check in alone
    ]
    assert (ORACLE, 3) in together
    assert ("spmd", 3) in together
    assert requests == [("spmd", {})], "what is spoiled runs alone"
