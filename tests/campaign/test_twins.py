"""References of another make in a campaign: they run twins, and tell torch's own faults from a device's."""

import dataclasses
from pathlib import Path

import pytest
from machines import Machine, a_campaign, always, backend, examined, never, sharded, the_finding
from samples import tensor_parallel_case

from difftest.campaign.campaign import Campaign
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.twins import is_twin, no_twin, twin
from difftest.jobs.campaign.generated_cases import with_twins

CASE = tensor_parallel_case()


def a_campaign_with_references(root: Path, machine: Machine) -> Campaign:
    """A campaign on one backend of each side and on a reference."""
    reference = backend("definition")
    reference.unsupported = no_twin
    backends = {"ddp": backend("torch"), "spmd": backend("xla"), "numpy": reference}
    return dataclasses.replace(a_campaign(root, machine, backends), references=frozenset({"numpy"}))


def test_twins_run_on_references_and_other_cases_on_other_backends(tmp_path: Path) -> None:
    machine = Machine()
    campaign = a_campaign_with_references(tmp_path, machine)
    of_case, of_twin = examined(campaign, CASE, twin(CASE))
    assert sorted(of_case.result.comparisons) == ["ddp", "spmd"]
    assert sorted(of_twin.result.comparisons) == ["numpy"]
    assert not of_case.result.missing
    assert not of_twin.result.missing
    assert of_twin.result.comparisons["numpy"].verdict == "agree"


def test_a_twin_that_differs_is_blamed_on_torch_itself_with_the_layer(tmp_path: Path) -> None:
    campaign = a_campaign_with_references(tmp_path, Machine(numpy=always))
    examined(campaign, twin(CASE))
    finding = the_finding(campaign)
    assert finding.blame == "torch itself"
    assert finding.evidence["references"].startswith("numpy differ from torch's float64")
    assert finding.divergence.nature.startswith("Linear.weight")


@pytest.mark.parametrize(
    ("wrong", "blame", "words"),
    [
        ({"spmd": always}, "xla backend fault", "numpy agree with torch's float64"),
        ({"spmd": sharded, "numpy": always}, "xla sharding fault", "numpy differ from torch's float64"),
        ({"spmd": always, "ddp": always}, "oracle in doubt", "numpy agree with torch's float64"),
        ({"spmd": always, "ddp": always, "numpy": always}, "torch itself", "numpy differ from"),
    ],
)
def test_a_finding_says_whether_references_agree_on_the_twin(
    tmp_path: Path, wrong: dict[str, object], blame: str, words: str
) -> None:
    campaign = a_campaign_with_references(tmp_path, Machine(**wrong))  # type: ignore[arg-type]
    examined(campaign, CASE)
    findings = {finding.divergence.backend: finding for finding in campaign.corpus.findings()}
    assert findings["spmd"].blame == blame
    assert findings["spmd"].evidence["references"].startswith(words)


def test_a_campaign_without_references_has_no_such_evidence(tmp_path: Path) -> None:
    campaign = a_campaign(tmp_path, Machine(spmd=always))
    examined(campaign)
    assert "references" not in the_finding(campaign).evidence


def test_one_case_in_so_many_is_followed_by_its_twin(tmp_path: Path) -> None:
    campaign = a_campaign_with_references(tmp_path, Machine(numpy=never))
    cases = [(index, tensor_parallel_case(seed=index)) for index in range(64)]
    every, one_in_eight = (list(with_twins(campaign, cases, every)) for every in (1, 8))
    assert [case for _, case in every[::2]] == [case for _, case in cases]
    assert every[1][1] == twin(cases[0][1])
    twins = [(index, case) for index, case in one_in_eight if is_twin(case)]
    assert 3 <= len(twins) <= 16
    assert [number_of_twin(index) for index, _ in twins] == [
        index for index, case in cases if twin(case) in [own for _, own in twins]
    ]
    assert list(with_twins(campaign, cases, 0)) == cases


def number_of_twin(recorded: int) -> int:
    """The number of the case of which a recorded number is the twin's."""
    number = CaseNumber.of(recorded)
    assert number.series == Series.REFERENCE
    return number.index


def test_a_case_that_no_reference_can_run_has_no_twin(tmp_path: Path) -> None:
    machine = Machine()
    campaign = a_campaign_with_references(tmp_path, machine)
    refusing = {**campaign.backends, "numpy": backend("definition", reason="no definition")}
    cases = list(with_twins(dataclasses.replace(campaign, backends=refusing), [(0, CASE)], 1))
    assert cases == [(0, CASE)]


def test_the_number_of_a_twin_is_written_with_its_series() -> None:
    number = CaseNumber(70, Series.REFERENCE)
    assert CaseNumber.of(number.recorded) == CaseNumber.read("reference-70") == number
