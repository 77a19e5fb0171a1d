"""An outcome is the answer to its own request, computed by the packages that define the campaign."""

import dataclasses
from pathlib import Path

import pytest
from samples import a_case, a_failure, candidate, oracle

from difftest.ground import installed
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.judge.outcome import Origin, Outcome
from difftest.records import traces
from difftest.records.bundle import BundleWriter, Joined
from workers.cluster.dispatch import require_versions
from workers.cluster.environments import Environment
from workers.isolate.answers import new_request, require_answer

CASE, OTHER = a_case(), a_case(seed=5)
VERSIONS = {"torch": "2.9.0", "jaxlib": "0.7.1"}
PLAIN = Environment()


def answering(request: Origin | None) -> Outcome:
    return dataclasses.replace(candidate(CASE), origin=request)


def test_two_requests_for_the_same_run_have_different_numbers() -> None:
    assert new_request(CASE, "spmd").number != new_request(CASE, "spmd").number


def test_the_answer_to_a_request_is_accepted() -> None:
    request = new_request(CASE, "spmd")
    require_answer(answering(request), request)
    require_answer(dataclasses.replace(a_failure(), origin=request), request)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (new_request(OTHER, "spmd", "1"), f"is that of case {OTHER.id} on spmd"),
        (new_request(CASE, "ddp", "1"), f"is that of case {CASE.id} on ddp"),
        (new_request(CASE, "spmd", "0"), f"is that of case {CASE.id} on spmd, of another request"),
        (None, "is of unknown origin"),
    ],
    ids=["another case", "another backend", "an earlier run", "unknown"],
)
def test_the_answer_to_another_request_is_refused(returned: Origin | None, message: str) -> None:
    with pytest.raises(InfrastructureError, match=message):
        require_answer(answering(returned), new_request(CASE, "spmd", "1"))


@pytest.mark.parametrize("outcome", [candidate(CASE), a_failure()], ids=["trace", "failure"])
def test_files_keep_whose_answer_they_hold(outcome: Outcome, tmp_path: Path) -> None:
    request = new_request(CASE, "spmd")
    traces.save(tmp_path / "run", dataclasses.replace(outcome, origin=request))
    read = traces.load(tmp_path / "run")
    assert read is not None
    assert read.origin == request


def test_a_bundle_whose_run_is_of_another_case_is_refused(tmp_path: Path) -> None:
    recorder = BundleWriter(tmp_path)
    for name, outcome in (("oracle", oracle(CASE)), ("spmd", candidate(CASE))):
        kept = dataclasses.replace(outcome, origin=new_request(OTHER, name))
        recorder.keep(0, CASE, (name, "oracle" if name == "oracle" else "xla", ""), {}, kept)
    with pytest.raises(UsageError, match=f"is of case {OTHER.id} on spmd, not of {CASE.id} on spmd"):
        Joined([tmp_path], "oracle").execute(CASE, "spmd", {})


@pytest.fixture
def _driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", VERSIONS.get)


def by(**environment: str) -> Outcome:
    return dataclasses.replace(candidate(CASE), environment=environment)


@pytest.mark.usefixtures("_driver")
def test_the_drivers_versions_are_accepted_however_they_were_built() -> None:
    require_versions(by(torch="2.9.0+cu128", jaxlib="0.7.1"), "spmd", PLAIN)
    require_versions(by(torch="2.9.0", torch_xla="2.9.0+git1"), "spmd", PLAIN)
    require_versions(by(), "spmd", PLAIN)


@pytest.mark.usefixtures("_driver")
def test_another_version_is_refused_with_what_to_do_about_it() -> None:
    with pytest.raises(
        InfrastructureError, match=r"spmd ran with torch 2\.8\.0\+cu128; .* defined by 2\.9\.0: install"
    ):
        require_versions(by(torch="2.8.0+cu128"), "spmd", PLAIN)


@pytest.mark.usefixtures("_driver")
def test_an_environment_of_its_own_may_have_other_versions() -> None:
    require_versions(by(torch="2.8.0"), "spmd", Environment(python="/opt/old/bin/python"))
    require_versions(by(torch="2.8.0"), "spmd@old", PLAIN)
