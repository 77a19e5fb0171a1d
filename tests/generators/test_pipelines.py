"""The path of pipelines: what it draws, and that a pipeline takes nearly all of it."""

from collections import Counter

import pytest
from hypothesis import given
from quiet_draws import quietly

from difftest.cases.case import Case
from difftest.cases.parts import parts
from difftest.cases.pipelining import FOLDED, SINGLE
from difftest.cases.resets import REPEATED, resets
from generators.cases import case_at, cases
from workers.backends import torch_pipeline


@quietly()
@given(cases(paths=("pipelines",)))
def test_a_case_of_pipelines_is_valid_and_has_stages_on_every_rank(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    assert case.staged
    assert case.layout.mesh.names[0] == "pp"
    assert case.staged.microbatches * case.layout.data_ranks <= case.part_rows
    if case.staged.schedule in SINGLE:
        assert case.staged.microbatches >= case.staged.stages


@pytest.mark.long
def test_every_schedule_and_form_is_drawn_with_every_kind_of_stage() -> None:
    drawn = [case_at(0, index, paths=("pipelines",), max_world_size=4) for index in range(200)]
    counts = Counter(name for case in drawn for own in parts(case).values() for name in own)
    schedules = {name for name in counts if name.startswith("pipeline ") and "=" not in name}
    assert len(schedules) == 7
    assert 2 <= sum(counts[f"pipeline {name}"] for name in FOLDED) <= 25
    assert {name for name in counts if name.startswith("pipeline hands=")} == {
        f"pipeline hands={form}"
        for form in ("view", "two", "unused", "integers", "strided", "passed_on", "learned", "named")
    }
    assert {case.layout.mesh.names[1:] for case in drawn} >= {(), ("dp",), ("dp_shard",), ("tp",)}
    assert counts["accumulation"] > 20
    assert min(counts["frozen_layers"], counts["pipeline scaled=True"]) > 20
    assert counts["own_function"] > 10
    assert counts["input_hooks"] > 4
    assert {"pipeline evaluated=first", "pipeline evaluated=later"} <= {*counts}
    assert {f"pipeline beside={form}" for form in ("rows", "pair", "one_row", "number")} <= {*counts}
    assert counts["pipeline rows_second=True"] > 3
    assert sum(REPEATED in dict(resets(case)) for case in drawn) > 30
    uneven = [case for case in drawn if case.staged and case.part_rows % case.staged.microbatches]
    assert uneven
    refused = Counter(torch_pipeline.unsupported(case) for case in drawn)
    assert refused[None] > 160
