"""What is known of a user's model beside its numbers: what it reads, casts and makes, and how that counts."""

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
from own_models import own_case, own_description, own_layer
from samples import candidate, oracle

from difftest.cases.case import Case
from difftest.cases.options import Spelling
from difftest.findings.facts import facts
from difftest.jobs.ask.own_model import remarks
from difftest.judge.checks import on_device, recompile, shape
from difftest.judge.divergence import Divergence
from difftest.judge.events import Events, HostOperator
from difftest.judge.measured import measure_run
from difftest.judge.outcome import Sharded, Trace
from difftest.judge.stage import Stage
from generators import own

READS = {"_local_scalar_dense": 3, "nonzero": 1}
WHAT_READING_DOES: dict[str, Any] = {
    "device": "xla",
    "host_operators": {"aten::_local_scalar_dense": HostOperator(12)},
    "executed": (5, 10, 15, 20),
    "requested": (2, 4, 6, 8),
    "fetched": (3, 6, 9, 12),
    "graphs": (1, 2, 3, 4),
}


def judged(check: Any, case: Case, run: Trace, **known: Any) -> list[Divergence]:  # noqa: ANN401  a check, and events of the oracle
    truth = dataclasses.replace(oracle(case), events=Events(**known))
    return list(check.check(measure_run(case, "xla_spmd", "xla", truth, run)))


def on_xla(case: Case, **events: Any) -> Trace:  # noqa: ANN401  the fields of Events
    return dataclasses.replace(candidate(case), events=Events(**(WHAT_READING_DOES | events)))


@pytest.mark.parametrize("check", [on_device, recompile])
def test_what_follows_from_numbers_that_the_model_reads_is_no_fault(tmp_path: Path, check: Any) -> None:  # noqa: ANN401
    reading, other = own_case(tmp_path, reads=READS), own_case(tmp_path)
    assert judged(check, reading, on_xla(reading)) == []
    assert judged(check, other, on_xla(other)) != []


def test_another_operator_on_the_host_is_a_fault_beside_numbers_that_are_read(tmp_path: Path) -> None:
    case = own_case(tmp_path, reads=READS)
    (found,) = judged(on_device, case, on_xla(case, host_operators={"aten::cumsum": HostOperator(2)}))
    assert found.cause == "aten::cumsum falls back to the host"


def output_in(case: Case, dtype: str) -> Trace:
    def cast(tensor: Sharded, stage: Stage) -> Sharded:
        return dataclasses.replace(tensor, dtype=dtype) if stage is Stage.FORWARD else tensor

    trace = candidate(case)
    steps = tuple({key: cast(one, key[0]) for key, one in step.items()} for step in trace.steps)
    return dataclasses.replace(trace, steps=steps)


@pytest.mark.parametrize(
    ("dtype", "wrong"),
    [("float32", []), ("bfloat16", ["step 0, forward, output: has dtype bfloat16, expected float32"])],
)
def test_an_output_has_the_dtype_that_the_models_code_gives_it(
    tmp_path: Path, dtype: str, wrong: list[str]
) -> None:
    case = msgspec.structs.replace(own_case(tmp_path), dtype="bfloat16")
    run = output_in(case, dtype)
    outputs = [one.detail for one in judged(shape, case, run, dtypes={"output": "float32"}) if one.step == 0]
    assert [detail for detail in outputs if "output" in detail] == wrong


def test_the_facts_of_a_model_are_the_classes_of_its_modules_and_embeddings_come_first(
    tmp_path: Path,
) -> None:
    modules = {"": "Net", "head": "Linear", "layers": "ModuleList", "table": "Embedding"}
    case = own_case(tmp_path, modules=modules)
    assert set(facts(case)["layers"].split()) == {"Embedding", "Linear", "Net"}
    assert facts(case)["layers"].startswith("Embedding ")
    assert facts(case) == facts(Case.from_json(case.to_json())), "a file of a case has sorted keys"


def test_half_of_the_cases_are_plain_dtensors_where_the_model_mixes_none_of_its_own(tmp_path: Path) -> None:
    for mixes in (False, True):
        layer = own_layer(tmp_path, mixes_tensors=mixes)
        description = own_description(tmp_path, layer=layer)
        cases = [own.case_at(description, 3, index, max_world_size=2) for index in range(40)]
        plain = sum(case.forms.no_implicit_replication for case in cases)
        assert plain == 0 if mixes else 8 <= plain <= 32


def test_a_case_of_before_keeps_its_id(tmp_path: Path) -> None:
    case = own_case(tmp_path)
    text = case.to_json()
    assert not any(name in text for name in (b"mean_over", b"reads", b"mixes_tensors", b"no_implicit"))
    assert Case.from_json(text).id == case.id
    plain = msgspec.structs.replace(case, spelling=Spelling(no_implicit_replication=True))
    assert plain.id != case.id


def test_what_is_only_remarked_leaves_the_digest_of_a_description(tmp_path: Path) -> None:
    plain = own_description(tmp_path)
    remarked = msgspec.structs.replace(
        plain, decomposed=("_grouped_mm",), mean_of_means=0.5, unequal_loss=True
    )
    assert remarked.digest == plain.digest


def test_remarks_say_what_the_model_reads_and_what_the_reference_does_instead(tmp_path: Path) -> None:
    layer = own_layer(tmp_path, reads=READS)
    description = own_description(tmp_path, layer=layer, decomposed=("_grouped_mm",))
    reads, decomposed = remarks(description)
    assert reads == (
        "reads a number 4 times a step (_local_scalar_dense 3, nonzero 1), which breaks the graph on XLA "
        "and in torch.compile"
    )
    assert (
        decomposed
        == "the reference computes _grouped_mm by other operators: torch has no float64 kernel for it"
    )


def test_remarks_tell_a_mean_over_targets_from_rows_that_influence_each_other(tmp_path: Path) -> None:
    (unequal,) = remarks(own_description(tmp_path, mean_of_means=0.574))
    assert "global count" in unequal
    assert "its gradient is 57% off" in unequal
    layer = own_layer(tmp_path, rowwise=False)
    (of_loss,) = remarks(own_description(tmp_path, layer=layer, unequal_loss=True))
    (of_rows,) = remarks(own_description(tmp_path, layer=layer))
    assert of_loss.startswith("the loss of a batch is not the mean of those of its rows or targets: ")
    assert of_rows.startswith("rows influence each other, as in batch normalization: ")


def test_a_large_model_has_so_few_steps_that_what_a_run_leaves_has_room(tmp_path: Path) -> None:
    small = own_description(tmp_path)
    large = msgspec.structs.replace(
        small, layer=own_layer(tmp_path, parameters={"head.weight": (3000, 3500)})
    )
    assert small.most_steps > 100
    assert large.most_steps == 2
    drawn = [own.case_at(large, 0, number, max_world_size=2).training.steps for number in range(12)]
    assert set(drawn) == {1, 2}
