"""The ledger of known faults: what an entry matches, when it expires, and what it keeps from being run."""

from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from pages import ROOT
from sample_findings import FINDING, MISMATCH, an_observation, changed
from samples import a_case, tensor_parallel_case
from sentences import replaced

from difftest.campaign.case_run import CaseResult
from difftest.campaign.recording import Progress
from difftest.cases.case import Case, Data, Training
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Replicate, Shard
from difftest.cases.options import Spelling
from difftest.cases.resets import EPSILON
from difftest.findings.facts import FACTS, facts
from difftest.findings.ledger import LEDGER_FILE, Entry, Ledger, read_ledger
from difftest.findings.quarantine import with_quarantine
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from difftest.ground.plugins import plain
from difftest.jobs.ask.request import FailOn, Request
from difftest.jobs.campaign.conclusion import conclude
from difftest.jobs.campaign.storage import Output
from difftest.jobs.campaign.tally import Tally
from difftest.judge.comparator import Comparison
from difftest.judge.divergence import Divergence
from difftest.judge.outcome import Symptom
from difftest.records.announced import new_findings
from difftest.records.columns import Columns
from difftest.records.corpus import Corpus
from difftest.records.evidence import DECIDED_BY
from difftest.records.observation import Ending

TODAY = date(2026, 11, 21)
ENTRY = Entry(
    fingerprint="xla_spmd-gradients-*", upstream="pytorch/xla#1", reason="it is wrong", expires=TODAY
)
UNEVEN = tensor_parallel_case()
EVEN = a_case(training=Training(clip_norm=1.0))


def shown(backend: str, check: str, **fields: Any) -> Divergence:  # noqa: ANN401  as `replaced`
    """A mismatch that a check reports of a backend."""
    return replaced(MISMATCH, backend=backend, side=backend.partition("_")[0], check=check, **fields)


def test_an_entry_matches_by_fingerprint_facts_nature_and_facts_of_the_case() -> None:
    assert ENTRY.matches(MISMATCH, EVEN)
    detailed = replace(ENTRY, what={"differing": "13 / 316", "stage": "backward"})
    assert not detailed.matches(MISMATCH, EVEN)
    assert detailed.matches(replaced(MISMATCH, detail="13 / 316 elements differ"), EVEN)
    forward = replaced(MISMATCH, detail="step 0, forward, output: 13 / 316 elements differ")
    assert not detailed.matches(forward, EVEN)
    assert not detailed.matches(replaced(MISMATCH, detail="13 / 316 is odd"), EVEN), "another kind of facts"
    damaged = replace(ENTRY, nature="*lost alias*")
    assert not damaged.matches(MISMATCH, EVEN)
    assert damaged.matches(replace(MISMATCH, nature="narrow, lost alias"), EVEN)
    narrow = replace(ENTRY, where={"cuts": "uneven", "path": "tensor_*"})
    assert narrow.matches(MISMATCH, UNEVEN)
    assert not narrow.matches(MISMATCH, EVEN)
    assert not replace(ENTRY, fingerprint="xla_tp-*").matches(MISMATCH, EVEN)


def test_an_entry_matches_in_every_environment() -> None:
    elsewhere = replace(MISMATCH, backend=f"{MISMATCH.backend}@2.8")
    assert elsewhere.fingerprint == FINDING.fingerprint.replace("xla_spmd", "xla_spmd@2.8")
    assert ENTRY.matches(elsewhere, EVEN)
    kept = Entry(
        fingerprint="xla_spmd-*",
        upstream="x",
        reason="y",
        expires=TODAY,
        quarantine=True,
        where={"path": "data_parallel"},
    )
    assert Ledger(entries=(kept,)).quarantine("xla_spmd@2.8", EVEN, TODAY) == kept


def test_an_entry_that_names_an_environment_is_about_that_one_alone() -> None:
    there = replace(ENTRY, fingerprint="xla_spmd@newest-*", quarantine=True, where={"path": "data_parallel"})
    assert there.matches(replace(MISMATCH, backend="xla_spmd@newest"), EVEN)
    assert not there.matches(MISMATCH, EVEN)
    assert not there.matches(replace(MISMATCH, backend="xla_spmd@2.8"), EVEN)
    ledger = Ledger(entries=(there,))
    assert ledger.quarantine("xla_spmd@newest", EVEN, TODAY) == there
    assert ledger.quarantine("xla_spmd", EVEN, TODAY) is None


def test_an_entry_matches_until_it_expires_and_is_reported_then() -> None:
    ledger, tomorrow = Ledger(entries=(ENTRY,)), date(2026, 11, 22)
    assert (
        ledger.entry(MISMATCH, EVEN, TODAY),
        ledger.expired(TODAY),
    ) == (
        ENTRY,
        (),
    )
    assert (
        ledger.entry(MISMATCH, EVEN, tomorrow),
        ledger.expired(tomorrow),
    ) == (None, (ENTRY,))


def test_the_first_matching_entry_counts() -> None:
    other = replace(ENTRY, fingerprint="*", upstream="pytorch/xla#2")
    assert Ledger(entries=(ENTRY, other)).entry(MISMATCH, EVEN, TODAY) == ENTRY
    assert Ledger(entries=(other, ENTRY)).entry(MISMATCH, EVEN, TODAY) == other


def test_the_facts_of_a_case_are_words() -> None:
    facts_ = facts(EVEN)
    assert set(facts_) == set(FACTS)
    assert (facts_["clipping"], facts_["cuts"], facts_["kernels"], facts_["layers"]) == (
        "on",
        "even",
        "whole",
        "Linear",
    )
    assert (facts(UNEVEN)["cuts"], facts(UNEVEN)["mesh"]) == ("uneven", "tp=2")
    cut = a_case(
        (Conv(inputs=2, outputs=2),), sequence=4, batch=(Replicate(),), sharded={"0.weight": (Shard(2),)}
    )
    assert facts(cut)["kernels"] == "cut"
    whole = a_case(fed=Data(batch=5), batch=(Replicate(),))
    assert (facts(whole)["cuts"], facts(whole)["rows"], facts(EVEN)["rows"]) == ("even", "uneven", "even")


def test_quarantined_cases_are_unsupported_until_the_entry_expires() -> None:
    entry = replace(ENTRY, fingerprint="xla_*-completion-crash-*", where={"cuts": "uneven"}, quarantine=True)
    there = {
        name: SimpleNamespace(
            SIDE=name[:3], FRAMEWORK="", unsupported=lambda case: "it cannot" if case.seed else None
        )
        for name in ("xla_spmd", "torch_ddp")
    }
    kept = with_quarantine(there, Ledger(entries=(entry,)), TODAY)
    assert kept["xla_spmd"].unsupported(UNEVEN) == "quarantined until 2026-11-21: it is wrong (pytorch/xla#1)"
    assert kept["xla_spmd"].unsupported(EVEN) is None
    assert kept["torch_ddp"].unsupported(UNEVEN) is None
    assert kept["xla_spmd"].unsupported(tensor_parallel_case(seed=1)) == "it cannot"
    assert [backend.SIDE for backend in kept.values()] == ["xla", "tor"]
    later = with_quarantine(there, Ledger(entries=(entry,)), date(2027, 1, 1))
    assert later["xla_spmd"].unsupported(UNEVEN) is None


AN_ENTRY = "[[known]]\nfingerprint = 'a-*'\nupstream = 'u'\nreason = 'r'\nexpires = 2027-01-01\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[known]]\n", "missing required field `fingerprint`"),
        ("known = 3", "Expected `array`"),
        ("[[known", "Expected ']]'"),
        ("[[known]]\nfingerprint = 'a-*'\nupstream = 'u'\nreason = 'r'\nexpires = 'soon'", "Invalid"),
        (
            f"{AN_ENTRY}because = 1",
            "unknown field `because`",
        ),
        (
            f"{AN_ENTRY}where = {{ moon = 'full' }}",
            "entry 'a-\\*' asks in `where` for moon; allowed: path, mesh",
        ),
        (
            f"{AN_ENTRY}what = {{ moon = 'full' }}",
            "entry 'a-\\*' asks in `what` for moon; allowed: step, stage",
        ),
        (
            f"{AN_ENTRY}quarantine = true",
            "is a quarantine of every case; `where` must say of which",
        ),
    ],
)
def test_a_malformed_ledger_is_named_by_its_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "known.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=rf"{file}: .*{message}"):
        read_ledger(file)


def test_the_error_for_a_missing_ledger_names_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read '.*/none\.toml': No such file or directory"):
        read_ledger(tmp_path / "none.toml")


def test_the_projects_own_ledger_is_valid_and_names_existing_backends_and_scripts() -> None:
    ledger = read_ledger()
    assert len(ledger.entries) >= 7
    root = ROOT
    for entry in ledger.entries:
        assert any(fnmatchcase(name, plain(entry.backend)) for name in backends()), entry.fingerprint
        assert entry.upstream.startswith("https://github.com/") or (root / entry.upstream).is_file()


def backends() -> tuple[str, ...]:
    return plugins.names("workers.backends")


def test_the_documented_faults_match_entries_and_similar_ones_do_not() -> None:
    ledger = read_ledger()
    assert_ = "RuntimeError: !at::functionalization::impl::isFunctionalTensor(t) INTERNAL ASSERT FAILED at x"
    failed = shown("xla_dtensor", "completion", symptom=Symptom.EXCEPTION, detail=assert_)
    entry = ledger.entry(failed, EVEN, TODAY)
    assert entry
    assert entry.upstream.endswith("pytorch/xla/issues/8534")
    assert ledger.entry(replaced(failed, detail="RuntimeError: else"), EVEN, TODAY) is None
    clipped = shown("torch_dtensor", "parameters", predicted=("another_norm",))
    assert ledger.entry(clipped, EVEN, TODAY)
    assert ledger.entry(replace(clipped, predicted=()), EVEN, TODAY) is None
    assert ledger.entry(clipped, UNEVEN, TODAY) is None


PLAIN = a_case((Linear(inputs=4, outputs=4), Activation(function="tanh"), Linear(inputs=4, outputs=2)))
NORMED = a_case((Linear(inputs=4, outputs=4), RMSNorm(width=4)), fed=Data(batch=5))


@pytest.mark.parametrize("check", ["loss", "gradients", "parameters", "replicas"])
def test_no_entry_matches_a_wrong_number_in_a_plain_case(check: str) -> None:
    for name in backends():
        wrong = shown(name, check, detail="step 0, forward, output: x")
        assert read_ledger().entry(wrong, PLAIN, TODAY) is None, name


@pytest.mark.parametrize("check", ["gradients", "parameters"])
def test_a_forgotten_epsilon_is_known_where_the_norms_epsilon_decides(check: str) -> None:
    one, decided = shown("torch_dtensor", check, nature=""), {DECIDED_BY: EPSILON}
    assert read_ledger().entry(one, NORMED, TODAY, decided)
    assert read_ledger().entry(one, NORMED, TODAY) is None
    assert read_ledger().entry(one, PLAIN, TODAY, decided) is None, "it has no norm"


def test_a_wrong_output_of_an_rms_norm_does_not_match_the_mean_over_uneven_shards() -> None:
    assert facts(NORMED)["cuts"] == "uneven"
    wrong = [
        shown("torch_dtensor", "loss", detail=f"step 0, forward, {tensor}: x", predicted=(model,))
        for tensor, model in (("output", "lost_epsilon"), ("loss", "mean_of_shards"))
    ]
    entries = [read_ledger().entry(one, NORMED, TODAY) for one in wrong]
    assert ["rms_norm" in (entry.upstream if entry else "") for entry in entries] == [True, False]
    assert entries[1]
    assert entries[1].upstream.endswith("162692")
    assert [read_ledger().entry(replace(one, predicted=()), NORMED, TODAY) for one in wrong] == [None, None]


def concluded(out: Path, tally: Tally, fail_on: FailOn = "new") -> int:
    request = Request(out=out, ledger=LEDGER_FILE, fail_on=(fail_on,), as_json=False)
    return conclude(request, Output(out, str(out)), tally)


@pytest.mark.long
def test_a_fault_like_a_recorded_one_is_new_if_the_ledger_does_not_cover_its_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = Corpus(tmp_path / "corpus")
    corpus.prepare()
    corpus.save(FINDING, UNEVEN)
    entry = replace(ENTRY, expires=date.max, where={"cuts": "uneven"})
    for case, status in ((UNEVEN, 0), (EVEN, 1)):
        progress = Progress(
            result=CaseResult(
                index=0,
                case=case,
                comparisons={
                    FINDING.divergence.backend: Comparison(verdict="diverge", divergences=(MISMATCH,))
                },
            )
        )
        tally = Tally(ledger=Ledger(entries=(entry,)))
        tally.recurring = {FINDING.fingerprint: corpus.finding(FINDING.fingerprint)}
        tally.count(progress)
        assert concluded(tmp_path, tally) == status
        assert ("1 understood, not reported" in capsys.readouterr().out) == (status == 0)
    for covers, status in (({"cuts": "uneven"}, 1), ({}, 0)):
        again = Tally(ledger=Ledger(entries=(replace(entry, where=covers),)))
        again.count_as_new(new_findings(corpus, ""))
        assert concluded(tmp_path, again) == status, (
            "the same command again shows nothing, and ends as before"
        )


@pytest.mark.parametrize(("back", "status"), [(0, 0), (1, 1)])
def test_a_hang_that_was_not_reproduced_does_not_fail_the_campaign(
    tmp_path: Path, back: int, status: int
) -> None:
    late = changed(FINDING, symptom=Symptom.HANG, stable=(back, 2))
    corpus = Corpus(tmp_path / "corpus")
    corpus.prepare()
    corpus.save(late, EVEN)
    tally = Tally(cases=1, runs=2, new={late.fingerprint: late})
    assert concluded(tmp_path, tally) == status


@pytest.mark.parametrize(("fail_on", "status"), [("new", 0), ("any", 1)])
def test_a_difference_of_what_torch_leaves_undefined_is_kept_and_fails_no_campaign(
    tmp_path: Path, fail_on: FailOn, status: int
) -> None:
    undefined = changed(FINDING, symptom=Symptom.UNDEFINED, stable=(2, 2))
    corpus = Corpus(tmp_path / "corpus")
    corpus.prepare()
    corpus.save(undefined, EVEN)
    tally = Tally(cases=1, runs=2, new={undefined.fingerprint: undefined})
    assert concluded(tmp_path, tally, fail_on) == status
    assert corpus.finding(undefined.fingerprint).divergence.symptom is Symptom.UNDEFINED


def test_a_campaign_that_compared_nothing_is_an_error(tmp_path: Path) -> None:
    Corpus(tmp_path / "corpus").prepare()
    tally = Tally(cases=2, runs=2)
    refused = Ending(status="unsupported")
    line = an_observation(0, "xla_spmd", "unsupported", outcome=refused, reason="it cannot")
    tally.comparisons.add(Columns.of([line]))
    with pytest.raises(UsageError, match="nothing was compared: no backend supports any of the 2 cases"):
        concluded(tmp_path, tally)


@pytest.mark.parametrize(
    ("in_ledger", "fail_on", "status"), [(True, "new", 0), (False, "new", 1), (True, "any", 1)]
)
def test_a_new_finding_with_a_ledger_entry_is_marked_and_does_not_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, in_ledger: bool, fail_on: FailOn, status: int
) -> None:
    corpus = Corpus(tmp_path / "corpus")
    corpus.prepare()
    corpus.save(FINDING, EVEN)
    ledger = Ledger(entries=(replace(ENTRY, expires=date.max),) if in_ledger else ())
    tally = Tally(ledger=ledger, cases=1, runs=2, new={FINDING.fingerprint: FINDING})
    assert concluded(tmp_path, tally, fail_on) == status
    assert ("1 understood, not reported" in capsys.readouterr().out) == in_ledger


TIED = (Embedding(vocabulary=5, width=4), Linear(inputs=4, outputs=5, bias=False, tied=True))
SUM = (Collective(operation="all_reduce", width=4, mesh=(2,), factor=0.5), Linear(inputs=4, outputs=2))
SEGFAULT = "step 0, backward, rank 1: SIGSEGV: Fatal Python error: Segmentation fault"


@pytest.mark.parametrize(
    ("form", "case", "fault", "another"),
    [
        (
            "tied_before",
            a_case(TIED, sequence=3),
            shown("xla_spmd", "gradients", detail="step 0, backward, 0.weight: x"),
            {"nature": "negated"},
        ),
        (
            "tied_before",
            a_case(TIED, sequence=3),
            shown("torch_tp", "gradients", detail="step 0, backward, 0.weight: x"),
            {"detail": "step 0, backward, 2.bias: x"},
        ),
        (
            "optimizer_before",
            a_case(),
            shown("xla_ddp", "parameters", detail="step 0, update, 0.weight: x", nature="not updated"),
            {"nature": ""},
        ),
        (
            "optimizer_before",
            a_case(),
            shown("xla_ddp", "parameters", nature="not updated, after the first step"),
            {"nature": "times a constant, after the first step"},
        ),
        (
            "optimizer_before",
            a_case(),
            shown(
                "xla_annotated",
                "gradients",
                detail="step 1, backward, 0.weight: x",
                nature="times a constant, after the first step",
                predicted=("untrained",),
            ),
            {"predicted": ()},
        ),
        (
            "optimizer_before",
            a_case(),
            shown("xla_annotated", "loss", detail="step 1, forward, output: x", predicted=("untrained",)),
            {"predicted": ()},
        ),
        (
            "optimizer_before",
            a_case(),
            shown("xla_replica", "completion", detail=SEGFAULT, symptom=Symptom.CRASH),
            {"detail": SEGFAULT.replace("SIGSEGV", "SIGABRT")},
        ),
        (
            "integers",
            a_case(SUM, fed=Data(batch=4, regime="exact")),
            shown("xla_replica", "loss", detail="step 0, forward, output: x"),
            {"check": "gradients"},
        ),
        (
            "changing_number",
            a_case(),
            shown("xla_spmd", "recompile", detail="step 3: 1 new graphs; x"),
            {"detail": "step 3: 7 new graphs; x"},
        ),
        (
            "changing_number",
            a_case(training=Training(steps=5, accumulation=2)),
            shown("xla_spmd", "recompile", detail="step 3: 2 new graphs; x"),
            {"detail": "step 3: 3 new graphs; x"},
        ),
    ],
)
def test_a_fault_of_a_usual_form_is_known_and_another_one_of_the_same_case_is_not(
    form: str, case: Case, fault: Divergence, another: dict[str, str]
) -> None:
    spelled = replace(case, spelling=Spelling(**{form: True}))
    assert read_ledger().entry(fault, spelled, TODAY)
    assert read_ledger().entry(replaced(fault, **another), spelled, TODAY) is None
    assert read_ledger().entry(fault, case, TODAY) is None


def test_integers_are_rounded_by_collectives_alone() -> None:
    spelled = a_case(fed=Data(batch=4, regime="exact"), spelling=Spelling(integers=True))
    wrong = shown("xla_replica", "loss", detail="step 0, forward, output: x")
    assert read_ledger().entry(wrong, spelled, TODAY) is None
    whole = a_case(
        (replace(SUM[0], factor=2.0), SUM[1]), fed=Data(batch=4, regime="exact"), spelling=spelled.spelling
    )
    assert read_ledger().entry(wrong, whole, TODAY) is None, "a whole factor is not rounded"


def test_a_fault_that_ends_every_run_needs_a_backend_and_an_exact_cause() -> None:
    exact: dict[str, Any] = {
        "fingerprint": "xla_tp-completion-*",
        "cause": "AttributeError\nno mesh\nmesh.py:get",
        "always": True,
        "upstream": "x",
        "reason": "y",
        "expires": TODAY,
    }
    assert Entry(**exact).always
    wrong: list[dict[str, Any]] = [
        {"fingerprint": "xla_*-completion-*"},
        {"cause": "*"},
        {"where": {"mesh": "dp=2"}},
    ]
    for changes in wrong:
        with pytest.raises(ValueError, match="must name one backend and an exact cause"):
            Entry(**(exact | changes))
