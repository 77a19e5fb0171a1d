"""Control cases: a backend that never agreed runs one of its cases in its plain form, which decides."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from machines import SIDES, FakeCluster, Machine, always, backend
from samples import tensor_parallel_case

from difftest import cli
from difftest.cases.case import Case, Data, Training
from difftest.cases.case_number import CaseNumber, Series
from difftest.cases.options import Replication, Spelling
from difftest.cases.resets import PLAIN_STEPS, REPEATED, STRIDES, plain, resets
from difftest.cases.twins import no_twin
from difftest.ground import plugins
from difftest.ground.errors import InfrastructureError
from difftest.jobs.ask.case_source import Drawing
from difftest.jobs.campaign import generated_cases, run
from difftest.jobs.campaign.control import MOST_CASES
from difftest.records.corpus import CORPUS, Corpus
from difftest.records.observation import Observation
from generators.cases import case_at

STEPS = 3
CASES = tuple(
    tensor_parallel_case(seed=seed, training=Training(steps=STEPS), spelling=Spelling(unequal=True))
    for seed in range(4)
)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    monkeypatch.setattr(run, "campaign_on_cluster", cluster.campaign)
    monkeypatch.setattr(generated_cases, "generated_cases", lambda *_: (one for one in enumerate(CASES)))
    return cluster


def campaign(out: Path, *options: str) -> Result:
    arguments = ["run", "--out", str(out), "--cases", str(len(CASES)), "--fail-on", "infra", *options]
    return CliRunner().invoke(cli.difftest, arguments, standalone_mode=False)


def controls(out: Path) -> list[Observation]:
    """The lines of control cases, without the oracle's."""
    lines = Corpus(out / CORPUS).observations()
    ours = (line for line in lines if CaseNumber.of(line.index).series == Series.CONTROL)
    return [line for line in ours if line.backend != "oracle"]


def trained(case: Case) -> bool:
    """A fault of every case that takes more steps than a control."""
    return case.training.steps > PLAIN_STEPS


def test_a_backend_that_met_faults_alone_is_right_where_it_agrees_in_the_control(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.machine = Machine(spmd=trained)
    done = campaign(tmp_path)
    assert done.exception is None
    assert "spmd never agreed: running control case control-0" in done.stderr
    (control,) = controls(tmp_path)
    assert (control.backend, control.verdict) == ("spmd", "agree")
    assert control.case == plain(CASES[0]).id


def test_a_backend_that_is_wrong_in_the_control_too_was_not_compared_with_anything_that_works(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.machine = Machine(spmd=always)
    done = campaign(tmp_path)
    assert isinstance(done.exception, InfrastructureError)
    assert f"spmd: 0 of {len(CASES) + 1} comparisons agreed ({len(CASES) + 1} diverged)" in str(
        done.exception
    )
    assert [line.verdict for line in controls(tmp_path)] == ["diverge"]


def test_a_backend_that_agreed_needs_no_control(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.machine = Machine(spmd=lambda case: case.seed > 0)
    assert campaign(tmp_path).exception is None
    assert controls(tmp_path) == []


def test_a_campaign_that_ran_its_control_is_complete(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.machine = Machine(spmd=trained)
    campaign(tmp_path)
    requests = cluster.machine.requests.total()
    assert campaign(tmp_path).exception is None
    assert (cluster.machine.requests.total(), len(controls(tmp_path))) == (requests, 1)


def test_two_backends_share_a_control(cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.machine = Machine(spmd=trained, ddp=trained)
    assert campaign(tmp_path).exception is None
    assert sorted(line.backend for line in controls(tmp_path)) == ["ddp", "spmd"]


def test_a_backend_that_cannot_run_the_first_cases_has_a_control_of_its_own(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = [tensor_parallel_case(seed=100 + number) for number in range(MOST_CASES)]
    numbered = list(enumerate([*foreign, *CASES]))
    monkeypatch.setattr(generated_cases, "generated_cases", lambda *_: (one for one in numbered))
    ddp = backend("torch")
    ddp.unsupported = lambda case: "a foreign case" if case.seed >= 100 else ""
    cluster.backends = {"ddp": ddp, "spmd": backend("xla")}
    cluster.machine = Machine(ddp=trained)
    assert campaign(tmp_path, "--cases", str(len(numbered))).exception is None
    assert [(line.backend, line.case) for line in controls(tmp_path)] == [("ddp", plain(CASES[0]).id)]


def test_the_twin_of_a_case_is_no_control(cluster: FakeCluster, tmp_path: Path) -> None:
    reference = backend("definition")
    reference.unsupported = no_twin
    cluster.backends = {"numpy": reference, **{name: backend(side) for name, side in SIDES.items()}}
    cluster.references = frozenset({"numpy"})
    cluster.machine = Machine(spmd=trained)
    arguments = ("--references-every", "1")
    assert campaign(tmp_path, *arguments).exception is None
    assert [(line.backend, line.case) for line in controls(tmp_path)] == [("spmd", plain(CASES[0]).id)]


def test_the_plain_form_has_no_option_and_few_steps_of_plain_numbers() -> None:
    case = tensor_parallel_case(
        dtype="bfloat16",
        training=Training(steps=5, clip_norm=1.0, optimizer="adam", accumulation=2),
        fed=Data(batch=4, regime="tiny"),
        replication=Replication(gradient_as_bucket_view=True),
        spelling=Spelling(unequal=True, optimizer_before=True),
    )
    two = Training(steps=PLAIN_STEPS)
    assert plain(case) == tensor_parallel_case(training=two, fed=Data(batch=4))


@pytest.mark.parametrize("path", plugins.names("generators.paths"))
def test_every_case_has_a_plain_form_on_the_same_ranks(path: str) -> None:
    for index in range(10):
        case = case_at(9, index, paths=(path,), max_world_size=4)
        form = plain(case)
        assert Case.from_json(form.to_json()) == form
        reset = dict(resets(case))
        model = (reset.get(STRIDES) or reset.get(REPEATED) or case).model
        assert (list(resets(form)), form.layout, form.model) == ([], case.layout, model)


def test_the_case_of_a_control_s_number_is_the_plain_form_of_the_case_that_it_names() -> None:
    drawing = Drawing(seed=3, model=None, paths=("data_parallel",), max_world_size=4)
    number = CaseNumber.read("control-5")
    assert drawing.case(number.recorded) == plain(drawing.case(5))
