"""Coverage: which operators comparisons with a verdict reached, and what is counted of it."""

import dataclasses

import msgspec
import numpy as np
import pytest
from sample_coverage import LINES
from sample_findings import a_measurement
from sample_programs import a_program, a_trace, an_operator
from samples import a_case, a_failure, candidate, oracle, tensor_parallel_case

from difftest.campaign.coverage import covered
from difftest.cases.case import Case, Training
from difftest.cases.evenness import evenness, of_case, of_operators
from difftest.cases.layers.building_block import BuildingBlock
from difftest.cases.layers.operator import Operand, Reference
from difftest.cases.layout import Mesh, Replicate, Shard
from difftest.cases.options import Feature, Spelling
from difftest.judge.events import Events
from difftest.judge.outcome import Symptom, Trace
from difftest.judge.reached import Reached
from difftest.records.columns import Columns
from difftest.records.coverage import ComparedWay, Coverage
from difftest.records.covered import Covered
from difftest.records.observation import read_observation
from difftest.records.reachable import reachable

PAIR = Mesh((("tp", 2),))
SQUARE = Mesh((("dp", 2), ("tp", 2)))


@pytest.mark.parametrize(
    ("shape", "placements", "mesh", "expected"),
    [
        ((4, 3), (Replicate(),), PAIR, "whole"),
        ((4, 3), (Shard(0),), PAIR, "even"),
        ((4, 3), (Shard(1),), PAIR, "uneven"),
        ((1, 3), (Shard(0),), PAIR, "empty"),
        ((0, 3), (Shard(0),), PAIR, "empty"),
        ((0, 3), (Replicate(),), PAIR, "whole"),
        ((), (Replicate(),), PAIR, "whole"),
        ((4, 3), (Shard(0), Shard(0)), SQUARE, "even"),
        ((6, 3), (Shard(0), Shard(0)), SQUARE, "uneven"),
        ((4, 3), (Shard(0),), Mesh((("tp", 1),)), "whole"),
    ],
)
def test_a_tensor_is_cut_into_equal_or_unequal_pieces_or_leaves_ranks_without_any(
    shape: tuple[int, ...], placements: tuple[Shard | Replicate, ...], mesh: Mesh, expected: str
) -> None:
    assert evenness(shape, placements, mesh) == expected


def test_an_ordinary_case_is_as_even_as_its_least_even_tensor() -> None:
    assert of_case(a_case()) == "even"
    assert of_case(tensor_parallel_case()) == "uneven"
    assert of_case(a_case().unsharded()) == "whole"


def chain() -> Case:
    """`add` of a tensor that is cut evenly, `mul` of its result, `neg` of a tensor that is whole."""
    operand = {"input": Operand(shape=(4, 3))}
    return a_program(
        an_operator("add"),
        an_operator("mul", operands={}, arguments=(Reference("0.output"), 2.0)),
        an_operator("neg", operands=operand),
        sharded={"0.input": (Shard(0),)},
    )


def test_a_programs_operator_is_as_even_as_what_it_names_and_a_result_as_its_layer() -> None:
    assert of_operators(chain()) == {"0": "even", "1": "even", "2": "whole"}


def trace(case: Case, reached: Reached) -> Trace:
    return a_trace(case, events=Events(reached=reached))


TRUTH = Reached(
    forward={"": ("mul", "sum"), "0": ("add",), "1": ("mul",), "2": ("neg",)},
    backward={"": ("mul", "sum"), "0": ("mul",), "2": ("neg",)},
)


def test_a_comparison_covers_what_the_oracle_dispatched_in_its_layers_where_torch_runs_eagerly() -> None:
    case = chain()
    own = Reached(eager=True, rules=("add S0,S0>S0",))
    assert covered(case, trace(case, TRUTH), trace(case, own), "agree") == Covered(
        forward={"whole": ("neg",), "even": ("add", "mul")},
        backward={"whole": ("neg",), "even": ("mul",)},
        entries={"whole": ("neg",), "even": ("add", "mul")},
        differentiated={"whole": ("neg",), "even": ("add",)},
        rules=("add S0,S0>S0",),
    )


def test_a_stage_of_a_program_of_which_noise_hides_everything_is_not_covered() -> None:
    case = chain()
    own = trace(case, Reached(eager=True))
    clear = a_measurement(0.0, tensor="0.output", elements=4, error=0.0, greatest=0.0, floor=0.0)
    noisy = msgspec.structs.replace(clear, stage="backward", tensor="0.input", floor=1.0)
    undecided = msgspec.structs.replace(clear, undecided=4)
    whole = covered(case, trace(case, TRUTH), own, "agree", (clear,))
    assert whole == covered(case, trace(case, TRUTH), own, "agree")
    part = covered(case, trace(case, TRUTH), own, "agree", (clear, noisy))
    assert (part.forward, part.entries) == (whole.forward, whole.entries)
    assert (part.backward, part.differentiated) == ({}, {})
    assert not covered(case, trace(case, TRUTH), own, "agree", (undecided,)).entries


def test_a_counted_backward_belongs_to_the_layers_where_the_oracle_has_it_and_the_rest_to_the_least_cut() -> (
    None
):
    case = chain()
    own = Reached(
        forward={"0": ("add",), "": ("sum",)},
        backward={"": ("fill_", "mul", "neg", "sum_copy")},
        lowered=("aten::add",),
    )
    assert covered(case, trace(case, TRUTH), trace(case, own), "diverge") == Covered(
        forward={"even": ("add",)},
        backward={"whole": ("fill_", "neg"), "even": ("mul",)},
        entries={"whole": ("neg",), "even": ("add", "mul")},
        differentiated={"whole": ("neg",), "even": ("add",)},
        lowered=("aten::add",),
    )


def test_only_a_run_that_finished_and_has_a_verdict_covers_something() -> None:
    case = a_case()
    truth = dataclasses.replace(oracle(case), events=Events(reached=Reached(forward={"": ("add",)})))
    ran = dataclasses.replace(candidate(case), events=Events(reached=Reached(eager=True)))
    assert covered(case, truth, ran, "agree").forward == {"even": ("add",)}
    for verdict in ("inconclusive", "oracle", "unsupported"):
        assert covered(case, truth, ran, verdict) == Covered()
    assert covered(case, truth, a_failure(Symptom.EXCEPTION), "diverge") == Covered()
    assert covered(case, truth, candidate(case), "agree").forward == {}


def test_a_comparison_covers_the_blocks_features_and_options_of_its_case() -> None:
    block = BuildingBlock(block="swiglu", arguments={}, parameters={"gate": (2, 2)}, inputs=2, outputs=2)
    training = Training(optimizer="momentum", accumulation=2, clip_norm=1.0, checkpointing=True)
    case = a_case((block,), training=training)
    used = (Feature(name="schedule", options={"kind": "cosine", "factor": 0.5}), Feature(name="evaluation"))
    case = msgspec.structs.replace(case, features=used, spelling=Spelling(torch_checkpoint=True))
    ran = oracle(a_case()), candidate(a_case())
    held = covered(case, *ran, "agree").parts
    assert held == {
        "blocks": ("swiglu",),
        "features": ("evaluation", "schedule"),
        "options": (
            "accumulation",
            "checkpointing",
            "clip_norm",
            "optimizer momentum",
            "schedule kind cosine",
            "spelling torch_checkpoint=True",
        ),
    }
    assert covered(case, *ran, "inconclusive").parts == {}


def test_a_call_that_torch_rejects_covers_no_entry() -> None:
    case = a_program(an_operator("add", rejects=True))
    own = Reached(eager=True)
    assert covered(case, trace(case, TRUTH), trace(case, own), "agree").entries == {}


def counted() -> Coverage:
    coverage = Coverage()
    coverage.add(Columns.of([*LINES, LINES[0]]))
    return coverage


def test_operators_are_counted_by_direction_cut_dtype_regime_and_side() -> None:
    coverage = counted()
    assert coverage.cells["forward"] == {
        ComparedWay("add", "even", "float32", "normal", "torch"): 2,
        ComparedWay("mul", "even", "float32", "normal", "torch"): 2,
        ComparedWay("neg", "whole", "float32", "normal", "torch"): 2,
        ComparedWay("add", "uneven", "bfloat16", "ties", "xla"): 1,
    }
    assert coverage.names("forward", "torch") == {"add", "mul", "neg"}
    assert coverage.names("forward", "torch", sharded=True) == {"add", "mul"}
    assert coverage.names("backward") == {"mul"}
    assert coverage.names("entries") == {"add"}
    assert coverage.ruled() == {"add"}
    assert coverage.sides() == ("torch", "xla")


def test_lines_together_are_counted_as_one_by_one() -> None:
    lines, one_by_one, none = [*LINES, LINES[0]], Coverage(), Coverage()
    for line in lines:
        one_by_one.add(Columns.of([line]))
    assert one_by_one == counted()
    none.add(Columns.of(lines).where(np.zeros(len(lines), np.bool_)))
    assert none == Coverage()


def test_a_line_from_before_coverage_was_recorded_covers_nothing() -> None:
    text = msgspec.json.decode(msgspec.json.encode(LINES[0]))
    del text["covered"]
    assert read_observation(msgspec.json.encode(text), "old").covered == Covered()
    assert read_observation(msgspec.json.encode(LINES[0]), "new").covered == LINES[0].covered


def test_the_data_say_what_can_be_reached_in_the_version_that_the_project_uses() -> None:
    data = reachable()
    assert (data.torch, len(data.operators)) == ("2.9.0", 1572)
    assert len(data.having("d")) == 349
    assert len(data.having("x")) == 422
    assert {"add", "mm", "_softmax"} <= data.dispatched
    assert not {"linear", "cudnn_convolution"} & data.dispatched
