"""The identity of divergences, and findings as JSON."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sample_findings import FINDING, MISMATCH, changed
from samples import a_failure

from difftest.ground.errors import UsageError
from difftest.judge.divergence import LOG_BYTES, Divergence, identity, shortened, without_numbers
from difftest.judge.facts import RemarkFacts
from difftest.judge.fingerprint import Fingerprint, readable
from difftest.judge.outcome import NO_MESSAGE, Symptom
from difftest.judge.stage import Stage
from difftest.records.finding import SCHEMA, Finding

FAILED = msgspec.structs.replace(
    MISMATCH, check="completion", symptom=Symptom.EXCEPTION, cause=identity(a_failure())
)

findings = st.builds(
    changed,
    st.just(FINDING),
    blame=st.text(max_size=9),
    facts=st.none() | st.builds(RemarkFacts, remark=st.text(max_size=9)),
    log=st.text(max_size=9),
    hits=st.integers(0, 2**40),
    ratio=st.none() | st.floats(0, 1e30),
    environment=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)


@given(st.integers(0, 10**9), st.text(max_size=5), st.text(max_size=5), st.floats(0, 1e30))
def test_a_fingerprint_does_not_depend_on_place_wording_or_numbers(
    step: int, tensor: str, detail: str, ratio: float
) -> None:
    for divergence in (MISMATCH, FAILED):
        other = msgspec.structs.replace(
            divergence, step=step, tensor=tensor, facts=RemarkFacts(remark=detail), log=detail, ratio=ratio
        )
        assert other.fingerprint == divergence.fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "data_parallel"},
        {"backend": "xla_ddp"},
        {"check": "loss"},
        {"stage": Stage.UPDATE},
        {"symptom": Symptom.NONFINITE},
    ],
)
def test_mismatches_differ_by_path_backend_check_stage_and_symptom(changes: dict[str, Any]) -> None:
    assert msgspec.structs.replace(MISMATCH, **changes).fingerprint != MISMATCH.fingerprint


def test_a_fault_has_one_hash_in_every_environment_of_a_backend() -> None:
    here, there = (
        msgspec.structs.replace(MISMATCH, backend=name).fingerprint for name in ("xla_spmd", "xla_spmd@2.8")
    )
    assert there == here.replace("xla_spmd", "xla_spmd@2.8")


def test_a_failure_is_the_same_on_every_path_and_stage() -> None:
    assert (
        msgspec.structs.replace(FAILED, path="data_parallel", stage=Stage.UPDATE).fingerprint
        == FAILED.fingerprint
    )
    assert msgspec.structs.replace(FAILED, backend="xla_ddp").fingerprint != FAILED.fingerprint


def test_a_fingerprint_begins_with_words_and_never_changes() -> None:
    assert (MISMATCH.fingerprint, FAILED.fingerprint) == (
        "xla_spmd-gradients-mismatch-ce80a7aa",
        "xla_spmd-completion-exception-cefc9bb5",
    )


@given(st.integers(), st.floats(), st.integers(0, 2**64))
def test_failures_that_differ_only_in_numbers_have_one_fingerprint(
    number: int, share: float, address: int
) -> None:
    def message(number: int, share: float, address: int) -> str:
        return f"got {number} of {share:.3f} at 0x{address:x} in [{number}, {number}]"

    one, other = (without_numbers(message(*numbers)) for numbers in ((number, share, address), (1, 0.5, 255)))
    if share - share == 0:
        assert one == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("size [2, 3] of 4", "size [17] of 1024"),
        (
            "failed for aten.cat.default([Spec(f32[2](R))], 1) on DeviceMesh",
            "failed for aten.cat.default([Spec(f32[3](S(0)))]) on",
        ),
        (
            "failed for aten.mm.default(Spec(f32[2, 3](R)), 1) on DeviceMesh((dp=2))",
            "failed for aten.mm.default(Spec(f16[8](S(0)))) on DeviceMesh",
        ),
        ("torch.Size([2, 3])", "torch.Size([5, 6, 7])"),
        ("shape (2,) and 2 x 3", "shape (4, 5) and 10 x 20"),
        ("expected 1e-05 but got 1.5e+10", "expected 2 but got 3"),
        ("at 0x7ffe1234abcd", "at 0x55aa"),
        ("index -1 is out of range", "index 5 is out of range"),
        ("no file /home/me/venv/lib/x.so", "no file /opt/lib/python3/x.so"),
        ("not compatible: f32[3,128,8] vs. f32[4,128,8]", "not compatible: bf16[5,128] vs. bf16[6,128]"),
        ('File "/a/b/torch/nn.py", line 3', 'File "/c/torch/nn.py", line 1234'),
        ("expected Half but found BFloat16", "expected BFloat16 but found Half"),
        ("dtype torch.bfloat16", "dtype torch.float16"),
        ("on DeviceMesh((dp=2), 'cpu', stride=(1,))", "on DeviceMesh((dp=2, tp=2), 'cuda', stride=(2, 1))"),
        ("from (Shard(dim=0), Replicate())", "from (Replicate(), Shard(dim=1))"),
        ("from [Partial(sum), _StridedShard(dim=0, sf=2)]", "from [Shard(dim=0)]"),
        ("f32[] is not f32[3]", "f32[4,2] is not f32[]"),
        ("cannot open /tmp/difftest-x1y2", "cannot open /var/tmp/difftest-abcd"),
    ],
)
def test_messages_that_differ_in_machine_and_sizes_have_one_identity(one: str, other: str) -> None:
    assert without_numbers(one) == without_numbers(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cannot shard dim 1", "cannot replicate dim 1"),
        ("no file /lib/x.so", "no file /lib/y.so"),
        ("size 3", "sizes 3"),
        ("expected Float but found Half", "expected Half but found Float"),
        ("mesh DeviceMesh((dp=2)) is too small", "mesh DeviceMesh((dp=2)) is too large"),
    ],
)
def test_messages_of_different_content_stay_apart(one: str, other: str) -> None:
    assert without_numbers(one) != without_numbers(other)


@given(st.text())
def test_removing_numbers_removes_all_and_never_fails(text: str) -> None:
    assert not any("0" <= letter <= "9" for letter in without_numbers(text))


@pytest.mark.parametrize(
    "changes", [{"kind": "SIGSEGV"}, {"message": "another word"}, {"frame": "/opt/torch/api.py:join"}]
)
def test_failures_differ_by_kind_message_and_frame(changes: dict[str, Any]) -> None:
    assert identity(a_failure(**changes)) != identity(a_failure())


@pytest.mark.parametrize(
    "changes",
    [
        {"message": "size 8 of dim 0"},
        {"frame": "/usr/lib/torch/api.py:split"},
        {"rank": 3},
        {"log": "else"},
        {"step": 9},
    ],
)
def test_failures_do_not_differ_by_folder_rank_log_or_step(changes: dict[str, Any]) -> None:
    assert identity(a_failure(**changes)) == identity(a_failure())


def test_the_source_line_that_stands_for_a_missing_message_identifies_nothing() -> None:
    one, without = (a_failure(message=text) for text in (f"{NO_MESSAGE}assert mesh is not None", ""))
    assert identity(one) == identity(without)


def test_the_cause_behind_dtensor_s_message_identifies_nothing() -> None:
    text = "Sharding propagation failed on op Op(op=aten.view.default, args_schema=Spec(S(0) on (3, 1)))."
    assert identity(a_failure(message=f"{text} IndexError: tuple")) == identity(a_failure(message=text))


def test_a_hang_is_the_same_whichever_ranks_had_ended() -> None:
    some, none = (
        a_failure(Symptom.HANG, message=f"not finished after 60 s; ranks that ended: {ended}")
        for ended in ("[0, 1]", "[]")
    )
    assert identity(some) == identity(none)
    assert identity(some) != identity(a_failure(Symptom.HANG, frame="/opt/torch/api.py:join"))


def test_a_fingerprint_s_text_is_built_and_parsed() -> None:
    elsewhere = msgspec.structs.replace(MISMATCH, backend="xla_spmd@2.8").fingerprint
    parsed = Fingerprint.parse(elsewhere)
    assert parsed
    assert (parsed.backend, parsed.check, parsed.symptom) == ("xla_spmd@2.8", "gradients", "mismatch")
    assert (str(parsed), str(parsed.without_environment())) == (elsewhere, MISMATCH.fingerprint)


@pytest.mark.parametrize(
    "text", ["", "xla_spmd", "Xla-loss-mismatch-12345678", "a-b-c-1234567", "../a-b-c-12345678"]
)
def test_other_text_is_no_fingerprint(text: str) -> None:
    assert Fingerprint.parse(text) is None


@given(findings)
def test_a_finding_is_the_same_after_a_round_trip(finding: Finding) -> None:
    assert Finding.from_json(finding.to_json()) == finding


def test_a_finding_is_indented_json_and_may_have_unknown_fields() -> None:
    text = FINDING.to_json()
    assert text.count(b"\n") > 10
    assert Finding.from_json(json.dumps(json.loads(text) | {"added_later": 1})) == FINDING


SCHEMA_1 = """{
  "ablations": {"the dtype is bfloat16": "stays"},
  "backend": "xla_spmd@2.8", "side": "xla", "path": "hybrid", "check": "gradients",
  "symptom": "mismatch", "stage": "backward", "step": 2, "tensor": "0.weight",
  "detail": "step 2, backward, 0.weight: wrong", "log": "a log", "ratio": 12.5,
  "blame": "xla sharding fault", "case": "0123456789ab", "checked": "2026-01-03T00:00:00+00:00",
  "conditions": ["mesh=dp=2"], "environment": {"torch": "2.9.0"}, "evidence": {"single": "agrees"},
  "fingerprint": "xla_spmd@2.8-gradients-mismatch-0a1b2c3d", "first_seen": "2026-01-01T00:00:00+00:00",
  "hits": 3, "last_seen": "2026-01-02T00:00:00+00:00", "located": ["forward: module 0"],
  "paths": ["data_parallel", "hybrid"], "reduced": "ba9876543210", "returned": [2, 3], "schema": 1,
  "seen": {"seed0-1a2b3c4d": 2, "": 1}, "stable": [1, 2], "status": "REPRODUCED",
  "untold": ["seed0-1a2b3c4d", 7], "upstream": "https://example.org/1"
}"""


def test_a_finding_of_schema_1_is_read_completely_and_written_as_schema_3() -> None:
    expected = Finding(
        fingerprint="xla_spmd@2.8-gradients-mismatch-0a1b2c3d",
        divergence=Divergence(
            backend="xla_spmd@2.8",
            side="xla",
            path="hybrid",
            check="gradients",
            symptom=Symptom.MISMATCH,
            stage=Stage.BACKWARD,
            step=2,
            tensor="0.weight",
            facts=RemarkFacts(remark="wrong"),
            log="a log",
            ratio=12.5,
        ),
        blame="xla sharding fault",
        hits=3,
        case="0123456789ab",
        paths=("data_parallel", "hybrid"),
        evidence={"single": "agrees"},
        stable=(1, 2),
        environment={"torch": "2.9.0"},
        first_seen="2026-01-01T00:00:00+00:00",
        last_seen="2026-01-02T00:00:00+00:00",
        reduced="ba9876543210",
        conditions=("mesh=dp=2",),
        ablations={"the dtype is bfloat16": "stays"},
        located=("forward: module 0",),
        status="REPRODUCED",
        checked="2026-01-03T00:00:00+00:00",
        returned=(2, 3),
        cases_by_campaign={"seed0-1a2b3c4d": 2, "": 1},
        new_in=("seed0-1a2b3c4d", 7),
        upstream="https://example.org/1",
    )
    finding = Finding.from_json(SCHEMA_1)
    assert finding == expected
    written = json.loads(finding.to_json())
    assert (written["schema"], written["divergence"]["backend"]) == (SCHEMA, "xla_spmd@2.8")
    assert written["unannounced"] == ["seed0-1a2b3c4d", 7]
    assert not {"backend", "seen", "untold"} & set(written)
    assert Finding.from_json(finding.to_json()) == expected


def test_a_schema_1_finding_needs_only_the_required_fields() -> None:
    fields = json.loads(SCHEMA_1)
    least = ("fingerprint", "symptom", "stage", "backend", "side", "path", "check", "blame", "hits", "case")
    finding = Finding.from_json(json.dumps({name: fields[name] for name in least}))
    assert (finding.divergence.cause, finding.divergence.nature, finding.cases_by_campaign) == ("", "", {})
    with pytest.raises(UsageError, match=r"finding cannot be read: .*`side`"):
        Finding.from_json(json.dumps({name: fields[name] for name in least if name != "side"}))


@pytest.mark.parametrize("rest", [{}, {"hits": "many"}])
def test_a_newer_finding_is_refused(rest: dict[str, object]) -> None:
    text = json.dumps(json.loads(FINDING.to_json()) | {"schema": SCHEMA + 1} | rest)
    with pytest.raises(
        UsageError,
        match=rf"finding has schema {SCHEMA + 1}; this program reads up to {SCHEMA}: "
        "it was written by a newer version",
    ):
        Finding.from_json(text)


@pytest.mark.long
@given(
    st.binary(max_size=20)
    | st.recursive(
        st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    ).map(json.dumps)
)
@example("[" * 100_000)
@example('{"schema": "new"}')
@example('{"schema": ' + "9" * 5000 + "}")
@example(b"\xff")
@example(FINDING.to_json()[:-30])
def test_text_that_is_no_finding_is_a_usage_error(text: bytes | str) -> None:
    with pytest.raises(UsageError, match=r"finding (cannot be read|has schema)"):
        Finding.from_json(text)


WRAPPED = "Sharding propagation failed on op Op(op=aten.{}, args_schema={} @ mesh: (2, 2)). IndexError: x"
NO_STRATEGY = "Operator aten.{}.default does not have a sharding strategy registered."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (NO_STRATEGY.format("cumsum"), NO_STRATEGY.format("sort")),
        ("cumsum(): argument 'dim' must be int", "sort(): argument 'dim' must be int"),
        ("\"cumsum_cpu\" not implemented for 'Half'", "\"sort_stable\" not implemented for 'Long'"),
        ("cumsum got torch.float32, expected torch.int64", "sort got torch.bool, expected torch.int32"),
        (
            WRAPPED.format("sort.stable", "[2]"),
            WRAPPED.format("topk.default", "Spec((Replicate()) on (2,)), 1"),
        ),
        ("mismatch f32[4,2] and pred[4]", "mismatch s64[4,2] and bf16[4]"),
        (
            "Function SubBackward0 returned an invalid gradient - got [4]",
            "Function ToCopyBackward0 returned an invalid gradient - got [4]",
        ),
    ],
)
def test_operators_of_programs_that_fail_alike_have_one_identity(one: str, other: str) -> None:
    first, second = (
        a_failure(message=one, operator="cumsum"),
        a_failure(message=other, operator="sort", stage=Stage.FORWARD),
    )
    assert identity(first) == identity(second)
    assert identity(a_failure(message="another", operator="sort")) != identity(second)
    assert identity(a_failure(message=one)) != identity(a_failure(message=other))


def test_the_function_that_a_program_called_is_no_cause_unless_it_made_a_plain_tensor() -> None:
    frames = ("torch/functional.py:split", "torch/_refs/__init__.py:diag_embed", "")
    called = [a_failure(message="no view here", frame=frame, operator="split") for frame in frames]
    assert len({identity(failure) for failure in called}) == 1
    deep = a_failure(message="no view here", frame="torch/distributed/tensor/_ops.py:plan", operator="split")
    assert identity(deep) != identity(called[0])
    mixed = [a_failure(message=MIXED.format("add.Tensor"), frame=frame, operator="split") for frame in frames]
    assert len({identity(failure) for failure in mixed}) == 3


def test_what_a_rule_raised_is_part_of_a_program_s_failure() -> None:
    messages = (WRAPPED.format("sort.stable", "[2]"), WRAPPED.format("sort.stable", "[2]").replace("x", "y"))
    failures = [a_failure(message=message, operator="sort") for message in messages]
    assert len({identity(failure) for failure in failures}) == 2


def test_a_program_that_hangs_nowhere_in_particular_is_identified_by_its_operator() -> None:
    hangs = [a_failure(Symptom.HANG, frame="", message="x", operator=name) for name in ("cumsum", "sort")]
    assert len({identity(hang) for hang in hangs}) == 2


MIXED = "aten.{}: got mixed torch.Tensor and DTensor, need to convert all"


def test_plain_tensors_that_meet_dtensors_in_different_operators_are_different_faults() -> None:
    scattered, added = (MIXED.format(name) for name in ("scatter.src", "add.Tensor"))
    sort, topk = (a_failure(message=scattered, operator=name) for name in ("sort", "topk"))
    assert identity(sort) == identity(topk)
    assert identity(a_failure(message=added, operator="sort")) != identity(sort)
    index_put, slice_scatter = (
        a_failure(message=MIXED.format(f"{name}.default"), operator=name)
        for name in ("index_put", "slice_scatter")
    )
    assert identity(index_put) != identity(slice_scatter)


@pytest.mark.parametrize(
    ("whole", "short"),
    [
        ("xla_spmd-completion-crash-0a1b2c3d", "xla_spmd-crash-0a1b2c3d"),
        ("xla_spmd@2.8-completion-exception-0a1b2c3d", "xla_spmd@2.8-exception-0a1b2c3d"),
        ("xla_spmd-gradients-mismatch-0a1b2c3d", "xla_spmd-gradients-mismatch-0a1b2c3d"),
        ("no fingerprint", "no fingerprint"),
    ],
)
def test_people_read_no_check_in_the_fingerprint_of_a_failure(whole: str, short: str) -> None:
    assert readable(whole) == short


def test_a_long_log_is_kept_with_its_beginning_and_its_end_when_made_and_when_read() -> None:
    log = "first line\n" + "é" * 10**6 + "\nlast line"
    made = changed(FINDING, log=log)
    kept = made.divergence.log
    assert len(kept.encode()) <= LOG_BYTES
    assert kept.startswith("first line\n")
    assert kept.endswith("\nlast line")
    (said,) = [line for line in kept.splitlines() if "left out" in line]
    lost = len(log.encode()) - len(kept.encode()) + len(said) + 2
    assert abs(int(said.split()[1]) - lost) < 4, "whole characters are kept"
    assert shortened(kept) == kept
    older = json.loads(made.to_json())
    older["divergence"]["log"] = log
    assert Finding.from_json(json.dumps(older)).divergence.log == kept
    assert changed(FINDING, log="short").divergence.log == "short"
