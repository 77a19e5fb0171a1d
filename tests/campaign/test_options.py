"""The options of a case: changed options, the option that decides a finding, and how often they are drawn."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import a_case, candidate, oracle, tensor_parallel_case, with_pieces, wrong_at

from difftest.campaign.campaign import ORACLE, Campaign, Explanation
from difftest.campaign.new_finding import REPEATS
from difftest.campaign.run import run
from difftest.cases.case import Case, Data
from difftest.cases.options import MOST_BUCKET_MEGABYTES, Replication, Spelling, Start, field_resets
from difftest.cases.resets import option_resets
from difftest.ground.errors import UsageError
from difftest.judge.divergence import Divergence
from difftest.judge.events import Events, HostOperator
from difftest.judge.outcome import Failure, Outcome, Symptom
from difftest.judge.stage import Stage
from difftest.records.corpus import Corpus
from difftest.records.evidence import DECIDED_BY, DECIDED_ELSEWHERE
from difftest.records.finding import Finding
from generators.cases import case_at
from generators.options import replications
from workers.backends import torch_ddp, torch_dtensor, torch_fsdp, torch_tp

BOTH = Replication(gradient_as_bucket_view=True, own_weights=True)


def test_options_at_their_defaults_are_not_reset() -> None:
    assert list(field_resets(Replication())) == []
    assert list(field_resets(Start())) == []
    assert list(option_resets(a_case())) == []


def test_each_option_is_reset_alone_under_its_name_and_value() -> None:
    assert dict(field_resets(BOTH)) == {
        "gradient_as_bucket_view=True": Replication(own_weights=True),
        "own_weights=True": Replication(gradient_as_bucket_view=True),
    }
    case = a_case(replication=Replication(no_sync=False), start=Start(marked="before"))
    assert dict(option_resets(case)) == {
        "replication.no_sync=False": a_case(start=Start(marked="before")),
        "start.marked=before": a_case(replication=Replication(no_sync=False)),
    }


def test_only_a_case_that_names_a_kernel_contains_one() -> None:
    case = a_case(sdpa="cudnn")
    assert dict(option_resets(case)) == {"sdpa=cudnn": a_case()}
    assert Case.from_json(case.to_json()) == case
    assert b"sdpa" not in a_case().to_json(), "cases older than the option keep their ids"
    with pytest.raises(UsageError, match="vector"):
        Case.from_json(case.to_json().replace(b"cudnn", b"vector"))


def test_only_a_case_with_a_usual_form_contains_a_spelling() -> None:
    case = a_case(spelling=Spelling(unequal=True, torch_loss=True))
    assert dict(option_resets(case)) == {
        "spelling.unequal=True": a_case(spelling=Spelling(torch_loss=True)),
        "spelling.torch_loss=True": a_case(spelling=Spelling(unequal=True)),
    }
    assert Case.from_json(case.to_json()) == case
    assert b"spelling" not in a_case().to_json(), "cases older than the option keep their ids"
    assert b'"spelling":{"torch_loss":true,"unequal":true}' in case.to_json()
    assert a_case(spelling=Spelling()).id == a_case().id, "the same case has one id"


def test_only_whole_numbers_are_collected_as_integers() -> None:
    spelling = Spelling(integers=True)
    assert a_case(spelling=spelling).id == a_case().id
    assert a_case(spelling=spelling, fed=Data(batch=4, regime="ties")).forms.integers


def test_ranks_with_weights_of_their_own_need_a_broadcast() -> None:
    with pytest.raises(ValueError, match="no_broadcast and own_weights are both set"):
        a_case(spelling=Spelling(no_broadcast=True), replication=Replication(own_weights=True))


@pytest.mark.parametrize("wrong", [0.0, -1.0, 2 * MOST_BUCKET_MEGABYTES])
def test_a_bucket_size_must_be_positive_and_limited(wrong: float) -> None:
    with pytest.raises(ValueError, match=f"bucket_cap_mb is {wrong}"):
        Replication(bucket_cap_mb=wrong)


class Machine:
    """A fake `xla` backend that counts its runs; replicas differ if gradients are views of buckets."""

    SIDE, FRAMEWORK = "xla", "torch_xla"

    def __init__(self) -> None:
        self.requests = Counter[tuple[str, str]]()

    def unsupported(self, _case: Case) -> str | None:
        """Return None: every case is supported."""
        return None

    def execute(self, case: Case, backend: str, _options: Mapping[str, str]) -> Outcome:
        """Return the oracle's trace, or a candidate's whose rank 1 has a different gradient."""
        self.requests[case.id, backend] += 1
        trace = oracle(case) if backend == ORACLE else candidate(case)
        if backend == ORACLE or case.world_size == 1 or not case.replication.gradient_as_bucket_view:
            return trace
        key = (Stage.BACKWARD, "0.weight")
        return with_pieces(trace, 0, key, {1: trace.steps[0][key].pieces[1] + 1})


def finding_of(
    root: Path,
    machine: Machine,
    case: Case,
    *,
    explained: str | Explanation = "",
    mechanisms: Mapping[str, Mapping[str, str]] = {},
) -> Finding:
    """The one finding; a name of `explained` is that of a check or a symptom."""

    def by_name(shown: Divergence, _case: Case, /, *, evidence: Mapping[str, str] = {}) -> object:
        del evidence
        return explained in {shown.check, shown.symptom}

    corpus = Corpus(root)
    corpus.prepare()
    campaign = Campaign(
        name="one",
        backends={"ddp": machine},
        execute=machine.execute,
        corpus=corpus,
        explanation=by_name if isinstance(explained, str) else explained,
        mechanisms={"ddp": mechanisms},
    )
    list(run(campaign, [(0, case)]))
    (finding,) = corpus.findings()
    return finding


def test_a_finding_names_the_option_that_decides_it(tmp_path: Path) -> None:
    finding = finding_of(tmp_path, Machine(), a_case(replication=BOTH, start=Start(marked="before")))
    assert (finding.divergence.check, finding.blame) == ("replicas", "xla sharding fault")
    assert finding.evidence["decided_by"] == "replication.gradient_as_bucket_view=True"


@pytest.mark.parametrize(
    ("explained", "decided_by"),
    [("parameters", "replication.gradient_as_bucket_view=True"), ("loss", None)],
)
def test_an_option_decides_too_where_a_known_fault_is_left_without_it(
    tmp_path: Path, explained: str, decided_by: str | None
) -> None:
    class OfTwoFaults(Machine):
        def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            first = backend == ORACLE or case.replication.gradient_as_bucket_view
            other = candidate(case, wrong_at(Stage.UPDATE, "0.weight"))
            return super().execute(case, backend, options) if first else other

    case = a_case(replication=Replication(gradient_as_bucket_view=True))
    finding = finding_of(tmp_path, OfTwoFaults(), case, explained=explained)
    assert finding.divergence.check == "replicas"
    assert finding.evidence.get("decided_by") == decided_by


def test_what_decides_in_a_later_case_is_told_where_that_makes_it_a_known_fault(tmp_path: Path) -> None:
    """Two faults that are known may have one fingerprint; a third case pays for no further run."""

    class OfEither(Machine):
        def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            shown = a_case(replication=BOTH) if case.start.marked == "before" else case
            outcome = super().execute(shown, backend, options)
            self.requests[case.id, f"{backend} at all"] += 1
            return outcome

    def known(_shown: Divergence, case: Case, /, *, evidence: Mapping[str, str] = {}) -> object:
        told = {*evidence.get(DECIDED_BY, "").split(", "), *evidence.get(DECIDED_ELSEWHERE, "").split(", ")}
        return told & {*dict(option_resets(case))}

    corpus, machine, before = Corpus(tmp_path), OfEither(), Start(marked="before")
    corpus.prepare()
    campaign = Campaign(
        name="one", backends={"ddp": machine}, execute=machine.execute, corpus=corpus, explanation=known
    )
    cases = [a_case(replication=BOTH), a_case(start=before), a_case(start=before, fed=Data(batch=8))]
    list(run(campaign, list(enumerate(cases))))
    (finding,) = corpus.findings()
    assert finding.evidence[DECIDED_BY] == "replication.gradient_as_bucket_view=True"
    assert finding.evidence[DECIDED_ELSEWHERE] == "start.marked=before"
    assert all(known(finding.divergence, case, evidence=finding.evidence) for case in cases)
    assert machine.requests[cases[2].id, "ddp at all"] == 1


def test_an_option_does_not_decide_where_a_known_failure_may_hide_the_fault(tmp_path: Path) -> None:
    class Failing(Machine):
        def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            first = backend == ORACLE or case.replication.gradient_as_bucket_view
            failure = Failure(
                symptom=Symptom.EXCEPTION, stage=Stage.FORWARD, step=0, kind="RuntimeError", message="no rule"
            )
            return super().execute(case, backend, options) if first else failure

    case = a_case(replication=Replication(gradient_as_bucket_view=True))
    assert "decided_by" not in finding_of(tmp_path, Failing(), case, explained="completion").evidence


def test_a_finding_names_the_mechanism_of_the_framework_that_decides_it(tmp_path: Path) -> None:
    class Caching(Machine):
        def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            wrong = backend != ORACLE and "CACHE" not in options
            return super().execute(a_case(replication=BOTH) if wrong else case, backend, options)

    mechanisms = {"runtime.cached_graphs": {"CACHE": "0"}, "runtime.threads": {"THREADS": "1"}}
    finding = finding_of(tmp_path, Caching(), a_case(), mechanisms=mechanisms)
    assert finding.evidence["decided_by"] == "runtime.cached_graphs"


def test_what_is_on_the_host_beside_wrong_numbers_may_stay_without_the_mechanism(tmp_path: Path) -> None:
    class OnHost(Machine):
        def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            if backend == ORACLE:
                return oracle(case)
            spoil = wrong_at(Stage.UPDATE, "0.weight") if "CACHE" not in options else None
            events = Events(device="xla", host_operators={"addmm": HostOperator(1)})
            return dataclasses.replace(candidate(case, spoil), events=events)

    case, mechanisms = a_case(), {"runtime.cached_graphs": {"CACHE": "0"}}
    corpus = Corpus(tmp_path)
    corpus.prepare()
    machine = OnHost()
    campaign = Campaign(
        name="one",
        backends={"xla": machine},
        execute=machine.execute,
        corpus=corpus,
        mechanisms={"xla": mechanisms},
    )
    list(run(campaign, [(0, case)]))
    decided = {one.divergence.check: one.evidence.get("decided_by") for one in corpus.findings()}
    assert decided["parameters"] == "runtime.cached_graphs"


def test_of_an_explained_fault_no_option_is_reset(tmp_path: Path) -> None:
    machine, case = Machine(), a_case(replication=BOTH, start=Start(marked="before"))
    finding = finding_of(tmp_path, machine, case, explained="replicas")
    assert "decided_by" not in finding.evidence
    assert (finding.stable, finding.blame) == ((REPEATS, REPEATS), "xla sharding fault")
    assert {name for name, _ in machine.requests} == {case.id, case.unsharded().id}


def test_without_a_changed_option_none_decides_and_no_further_run_is_made(tmp_path: Path) -> None:
    class Wrong(Machine):
        def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            if backend != ORACLE and case.world_size > 1:
                self.requests[case.id, backend] += 1
                case = a_case(replication=BOTH, seed=case.seed)
            return super().execute(case, backend, options)

    machine = Wrong()
    finding = finding_of(tmp_path / "plain", machine, a_case())
    assert "decided_by" not in finding.evidence
    assert {case for case, backend in machine.requests if backend == ORACLE} == {
        a_case().id,
        a_case().unsharded().id,
    }
    assert "decided_by" not in finding_of(tmp_path / "set", Wrong(), a_case(replication=BOTH)).evidence


class FormMachine(Machine):
    """Its `xla` backend differs where a case takes the form `wrong`."""

    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.wrong = wrong

    def execute(self, case: Case, backend: str, _options: Mapping[str, str]) -> Outcome:
        """Return a candidate's trace whose replicas differ for the form, or always for the form ``."""
        self.requests[case.id, backend] += 1
        trace = oracle(case) if backend == ORACLE else candidate(case)
        if backend == ORACLE or case.world_size == 1 or (self.wrong and not getattr(case.forms, self.wrong)):
            return trace
        key = (Stage.BACKWARD, "0.weight")
        return with_pieces(trace, 0, key, {1: trace.steps[0][key].pieces[1] + 1})


THREE_FORMS = Spelling(torch_loss=True, no_broadcast=True, host_backward=True)


def test_of_several_usual_forms_the_one_that_decides_is_named(tmp_path: Path) -> None:
    finding = finding_of(tmp_path, FormMachine("no_broadcast"), a_case(spelling=THREE_FORMS))
    assert finding.evidence["decided_by"] == "spelling.no_broadcast=True"


def test_of_several_usual_forms_one_decides_too_where_a_known_fault_is_left_without_them(
    tmp_path: Path,
) -> None:
    class OfTwoFaults(FormMachine):
        def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            first = backend == ORACLE or case.forms.no_broadcast
            other = candidate(case, wrong_at(Stage.UPDATE, "0.weight"))
            return super().execute(case, backend, options) if first else other

    machine, case = OfTwoFaults("no_broadcast"), a_case(spelling=THREE_FORMS)
    finding = finding_of(tmp_path, machine, case, explained="parameters")
    assert finding.divergence.check == "replicas"
    assert finding.evidence["decided_by"] == "spelling.no_broadcast=True"


@pytest.mark.parametrize(("left", "decides"), [(Stage.UPDATE, True), (Stage.BACKWARD, False)])
def test_an_option_decides_too_where_another_option_may_decide_the_fault_that_is_left(
    tmp_path: Path, left: Stage, *, decides: bool
) -> None:
    class OfTwoOptions(FormMachine):
        def execute(self, case: Case, backend: str, _options: Mapping[str, str]) -> Outcome:
            if backend == ORACLE or case.world_size == 1:
                return oracle(case)
            if case.forms.no_broadcast:
                return candidate(case, wrong_at(Stage.BACKWARD, "0.weight"))
            return candidate(case, wrong_at(left, "0.weight") if case.forms.host_backward else None)

    def explanation(shown: Divergence, _case: Case, /, *, evidence: Mapping[str, str] = {}) -> object:
        return "spelling.host_backward=True" in evidence.get("decided_by", "") and shown.check

    case = a_case(spelling=Spelling(no_broadcast=True, host_backward=True))
    finding = finding_of(tmp_path, OfTwoOptions(""), case, explained=explanation)
    decided = finding.evidence.get("decided_by", "").split(", ")
    assert ("spelling.no_broadcast=True" in decided) is decides


@pytest.mark.parametrize(
    ("without", "decides"),
    [
        (Failure(symptom=Symptom.EXCEPTION, stage=Stage.BACKWARD, step=0, kind="RuntimeError"), True),
        (Failure(symptom=Symptom.EXCEPTION, stage=Stage.FORWARD, step=0, kind="RuntimeError"), False),
        (Failure(symptom=Symptom.HANG, stage=Stage.BACKWARD, step=0, kind="deadline"), False),
        (None, True),
    ],
    ids=["a later known failure", "an earlier one", "a later failure that nothing explains", "wrong numbers"],
)
def test_an_option_decides_a_failure_that_is_gone_without_it_whatever_comes_later(
    tmp_path: Path, without: Failure | None, *, decides: bool
) -> None:
    class Failing(FormMachine):
        def execute(self, case: Case, backend: str, _options: Mapping[str, str]) -> Outcome:
            if backend == ORACLE or case.world_size == 1:
                return oracle(case)
            if case.forms.local_map:
                return Failure(symptom=Symptom.CRASH, stage=Stage.FORWARD, step=0, kind="SIGABRT")
            return without or candidate(case, wrong_at(Stage.BACKWARD, "0.weight"))

    case = a_case(spelling=Spelling(local_map=True))
    finding = finding_of(tmp_path, Failing(""), case, explained=Symptom.EXCEPTION)
    assert finding.divergence.symptom is Symptom.CRASH
    assert finding.evidence.get("decided_by") == ("spelling.local_map=True" if decides else None)


def test_where_no_usual_form_decides_none_is_tried_alone(tmp_path: Path) -> None:
    machine = FormMachine("")
    finding = finding_of(tmp_path, machine, a_case(spelling=THREE_FORMS))
    assert "decided_by" not in finding.evidence
    layouts = {case for case, backend in machine.requests if backend != ORACLE}
    assert layouts == {case.id for case in (a_case(), a_case(spelling=THREE_FORMS))} | {
        a_case(spelling=THREE_FORMS).unsharded().id
    }


accumulations = st.integers(1, 3)


@given(
    accumulations.flatmap(
        lambda parts: st.tuples(st.just(parts), replications(layout=a_case().layout, accumulation=parts))
    )
)
def test_drawn_options_are_those_that_the_wrapper_accepts(drawn: tuple[int, Replication]) -> None:
    parts, options = drawn
    assert not (options.static_graph and options.find_unused_parameters)
    assert parts == 1 or not options.static_graph or not options.no_sync, (
        "a static graph fails when its first backward is under no_sync"
    )
    assert parts > 1 or options.no_sync, "with one part there is nothing to sync early"


@given(replications(layout=tensor_parallel_case().layout, accumulation=2))
def test_replication_has_default_options_if_a_parameter_is_sharded(options: Replication) -> None:
    assert options == Replication()


@pytest.mark.long
def test_most_cases_have_the_defaults_and_every_option_appears() -> None:
    cases = [case_at(0, index, paths=["data_parallel"]) for index in range(100)]
    changed = Counter(name.partition("=")[0] for case in cases for name, _ in field_resets(case.replication))
    assert set(changed) == set(Replication.__struct_fields__)
    assert sum(case.replication == Replication() for case in cases) > len(cases) / 2
    first = next(
        i
        for i in itertools.count()
        if cases[i].replication.gradient_as_bucket_view and not torch_ddp.unsupported(cases[i])
    )
    assert first < 50


def test_a_wrapper_that_replaces_parameters_refuses_an_optimizer_made_before_it() -> None:
    case = a_case(spelling=Spelling(optimizer_before=True))
    for backend in (torch_dtensor, torch_fsdp, torch_tp):
        assert "made after" in (backend.unsupported(case) or ""), backend.__name__
    assert torch_ddp.unsupported(case) is None, "DistributedDataParallel keeps the parameters"
