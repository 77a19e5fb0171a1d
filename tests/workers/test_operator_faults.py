"""Planted faults of operators: each has a program in which it shows, is found and is blamed correctly."""

from collections.abc import Iterator, Mapping

import pytest
from fault_programs import PROGRAMS
from installed_packages import needs

from difftest.campaign.memo import Memo
from difftest.cases import twins
from difftest.cases.case import Case
from difftest.ground import plugins
from difftest.jobs.proof.planted_campaigns import Planting, chosen_defects
from difftest.jobs.proof.planted_summary import Planted, planted_summary
from difftest.judge.outcome import Outcome
from workers.backends import candidates
from workers.faults import PlantedFault, all_faults
from workers.isolate import sandbox

pytestmark = pytest.mark.slow  # the faults import torch

FAULTS = {name: fault for name, fault in all_faults().items() if "operators" in fault.paths}
LEAST_DETECTED, LEAST_BLAMED = 0.95, 0.9


def showing(fault: PlantedFault) -> Iterator[Case]:
    return filter(fault.reaches, PROGRAMS)


def test_there_are_faults_of_numbers_and_of_meaning_on_both_sides() -> None:
    assert len(FAULTS) >= 20
    backends = {backend for fault in FAULTS.values() for backend in fault.backends}
    assert {plugins.load("workers.backends", backend).SIDE for backend in backends} == {"torch", "xla"}


def test_each_fault_has_a_program_in_which_it_shows_and_paths_that_exist() -> None:
    assert not [name for name, fault in FAULTS.items() if next(showing(fault), None) is None]
    paths = {path for fault in all_faults().values() for path in fault.paths}
    assert paths <= {*plugins.names("generators.paths"), twins.PATH}


def test_faults_of_operators_are_planted_only_where_they_or_their_path_are_named() -> None:
    everything, named = chosen_defects(""), chosen_defects("operators")
    assert not any(fault.paths for fault, _ in everything)
    assert [fault.name for fault, _ in named] == [name for name, one in FAULTS.items() for _ in one.backends]
    assert chosen_defects("update_lost") == [
        (FAULTS["update_lost"], b) for b in FAULTS["update_lost"].backends
    ]


def run(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
    return sandbox.run(case, backend, options=options)


def planted_results(*planted: tuple[PlantedFault, str]) -> list[Planted]:
    planting = Planting(
        backends=candidates(("torch_dtensor", "xla_spmd")),
        cases=showing,
        most=len(PROGRAMS),
        execute=run,
        correct=Memo(run),
    )
    return [planting.find(one) for one in planted]


@pytest.mark.xla
def test_a_fault_of_one_device_and_one_of_sharding_are_found_and_blamed() -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    one, other = planted_results(
        (FAULTS["halves_rounded_up"], "torch_dtensor"), (FAULTS["padding_in_maximum"], "xla_spmd")
    )
    assert (one.detected, one.blame) == (True, "torch backend fault")
    assert (other.detected, other.blame) == (True, "xla sharding fault")


@pytest.mark.nightly
@pytest.mark.xla
def test_nearly_all_faults_of_operators_are_found_and_blamed() -> None:
    needs("torch_xla", reason="needs torch_xla: pip install 'difftest[xla]'")
    results = planted_results(*((fault, backend) for fault in FAULTS.values() for backend in fault.backends))
    summary = planted_summary(results)
    assert summary["detection_rate"] >= LEAST_DETECTED, summary["by_defect"]
    assert summary["blame_rate"] >= LEAST_BLAMED, summary["by_defect"]
