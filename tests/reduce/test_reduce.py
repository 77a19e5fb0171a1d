"""Reduction on fake faults: the candidates, the smallest case, and the conditions reported as necessary."""

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from generated_cases import ALONE
from hypothesis import given
from quiet_draws import quietly
from sample_programs import a_program, an_operator
from samples import a_case, experts_case, tensor_parallel_case

from difftest.cases.case import Case, Data, Training
from difftest.cases.evenness import uneven_cuts
from difftest.cases.layer import Layer
from difftest.cases.layers import walk
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.dropout import Dropout
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.flash_attention import FlashAttention
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.operator import Operand
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Replicate, Shard
from difftest.cases.options import Feature, Replication, Spelling, Start
from difftest.cases.pipelining import Pipeline
from difftest.cases.resets import option_resets
from difftest.cases.wrapping import Dispatch, Regions, Sharding
from difftest.ground.errors import InfrastructureError
from difftest.reduce.candidate import Candidate
from difftest.reduce.journal import ReductionJournal
from difftest.reduce.measure import is_less, measure
from difftest.reduce.placed import edited, put_together, taken_apart
from difftest.reduce.search import BUDGET, Reduced, reduce
from difftest.reduce.simplifications import simplifications
from generators.cases import cases

TWO_AXES = (("dp_replicate", 2), ("dp_shard", 2))
BLOCK = Residual(
    layers=(
        RMSNorm(width=16),
        Linear(inputs=16, outputs=24),
        Activation(function="gelu"),
        Linear(inputs=24, outputs=16),
    )
)
DECODER: tuple[Layer, ...] = (
    Embedding(vocabulary=24, width=16),
    Residual(layers=(LayerNorm(width=16), Attention(width=16, heads=4, kv_heads=2, segments=True))),
    BLOCK,
    Dropout(width=16),
    Linear(inputs=16, outputs=24, tied=True),
)
BUSY = Training(
    optimizer="adamw", steps=5, accumulation=2, clip_norm=1.0, loss="cross_entropy", checkpointing=True
)
CUT = (Replicate(), Shard(0))


def a_decoder(**rest: Any) -> Case:  # noqa: ANN401  fields of a case
    """A decoder with every kind of feature, on a mesh of six ranks."""
    fed = Data(batch=24, ignored=0.25)
    sharded = {
        "1.1.q.weight": CUT,
        "1.1.o.weight": (Replicate(), Shard(1)),
        "0.weight": CUT,
        "2.1.weight": CUT,
        "2.1.bias": CUT,
    }
    options: dict[str, Any] = {
        "replication": Replication(static_graph=True, no_sync=False),
        "start": Start(marked="before"),
        "sharding": Sharding(synced="every", offload=True),
        "regions": Regions(sequence=True),
    }
    return a_case(
        DECODER,
        mesh=(("dp", 2), ("tp", 3)),
        sharded=sharded,
        training=BUSY,
        fed=fed,
        sequence=8,
        **options,
        **rest,
    )


def a_collective(operation: str, width: int, **fields: object) -> Case:
    layer = Collective(operation=operation, width=width, mesh=(2, 2), **fields)  # type: ignore[arg-type]
    layers = (
        layer,
        Linear(inputs=layer.outputs, outputs=6),
        Redistribute(width=6, dims=(1, None), by="full_tensor"),
    )
    return a_case(layers, mesh=TWO_AXES, batch=(Shard(0), Shard(0)), fed=Data(batch=16), dtype="bfloat16")


FLASH = FlashAttention(
    width=16, heads=4, head_dim=128, length=256, keys=128, bias=True, causal=True, segments=True, scale=0.5
)
PIPED = msgspec.structs.replace(
    a_case((Linear(inputs=4, outputs=4),) * 6, mesh=(("pp", 2),), batch=(Replicate(),), fed=Data(batch=10)),
    pipeline=Pipeline(
        schedule="InterleavedZeroBubble", cuts=(1, 2, 4), microbatches=6, hands="two", scaled=True
    ),
)
RICH = (
    experts_case(
        dispatch=Dispatch(exchange="nn", product="batched"),
        hidden=8,
        top=2,
        capacity=3,
        shared=4,
        lean=0.5,
    ),
    a_decoder(),
    a_decoder(dtype="bfloat16"),
    a_case(
        (Conv(inputs=3, outputs=7, kernel=5), Linear(inputs=7, outputs=5)),
        sequence=12,
        sharded={"0.weight": (Shard(2),)},
    ),
    a_case(
        (Linear(inputs=5, outputs=16), FLASH),
        sequence=256,
        mesh=TWO_AXES,
        fed=Data(batch=7, regime="large"),
        sdpa="math",
        spelling=Spelling(torch_loss=True, optimizer_before=True),
    ),
    a_case(fed=Data(batch=4, learnable=True)),
    msgspec.structs.replace(a_case(), features=(Feature(name="evaluation"),)),
    a_collective("all_gather", 12, form="list", factor=2.0),
    a_collective("reduce_scatter", 12, axis=1),
    a_collective("all_to_all", 8, axis=1),
    a_collective("all_reduce", 5, reduction="max"),
    tensor_parallel_case(),
    PIPED,
    PIPED.unsharded(),
)
PROGRAM = a_program(
    *(an_operator("sin", operands={name: Operand(shape=(4, 3)) for name in ("input", "unused")}),) * 2
)
"""Its simplifications are tested in `test_reduce_programs`."""
UNUSED = PROGRAM.changed("training", loss="first_cotangent")
rich = pytest.mark.parametrize("case", RICH, ids=range(len(RICH)))


def assert_simpler_and_valid(case: Case) -> None:
    """Checks every candidate of every simplification."""
    for simplification in simplifications():
        for words, simpler in simplification(case):
            assert Case.from_json(simpler.to_json()) == simpler
            assert simpler.id != case.id, simplification.__name__
            assert measure(simpler) < measure(case), (simplification.__name__, words)
            assert simpler.seed == case.seed
            assert simpler.path == case.path


@pytest.mark.long
@quietly()
@given(cases(paths=ALONE))
def test_every_candidate_of_a_generated_case_is_valid_and_simpler(case: Case) -> None:
    assert_simpler_and_valid(case)


@rich
def test_every_candidate_of_a_rich_case_is_valid_and_simpler(case: Case) -> None:
    assert_simpler_and_valid(case)


@rich
def test_a_case_taken_apart_and_put_together_is_unchanged(case: Case) -> None:
    assert put_together(case, taken_apart(case)) == case
    assert edited(case, lambda _path, placed: (placed,)) == case


@rich
def test_a_fault_of_every_case_reduces_to_one_small_layer_on_one_device(case: Case) -> None:
    result = reduce(case, lambda _case: True)
    assert result
    assert (result.case.world_size, result.case.training) == (
        1,
        Training(learning_rate=result.case.training.learning_rate),
    )
    assert (result.conditions, result.complete) == ((), True)
    (layer,) = result.case.model.layers
    assert isinstance(layer, Linear)
    assert layer == Linear(inputs=layer.inputs, outputs=layer.outputs, bias=False)
    assert max(layer.inputs, layer.outputs) <= 4
    assert result.case.model.sequence == 0
    assert list(option_resets(result.case)) == []
    assert result.case.dtype == "float32"
    # Stages go by themselves: on one device their backend runs a case that has some, and no other.
    assert result.evaluations <= 4 + (case.staged is not None and case.world_size > 1)


def test_removing_a_layer_removes_its_placements_and_keeps_all_others() -> None:
    case = a_decoder()
    without = edited(case, lambda path, placed: () if path == "1" else (placed,))
    assert without.layout.parameters["1.1.weight"] == case.layout.parameters["2.1.weight"] == CUT
    assert [type(layer).__name__ for layer in without.model.layers] == [
        "Embedding",
        "Residual",
        "Dropout",
        "Linear",
    ]


def test_layers_are_fitted_to_the_width_before_them() -> None:
    case = a_case((Linear(inputs=6, outputs=16), BLOCK, Linear(inputs=16, outputs=3)))
    without = edited(case, lambda path, placed: () if path == "0" else (placed,))
    assert without.model.inputs == 16
    narrow = edited(
        a_case((Linear(inputs=6, outputs=6), *case.model.layers)),
        lambda path, placed: () if path == "1" else (placed,),
    )
    _, block, head = narrow.model.layers
    assert isinstance(block, Residual)
    norm, *_, last = block.layers
    assert isinstance(norm, RMSNorm)
    assert isinstance(last, Linear)
    assert isinstance(head, Linear)
    assert (norm.width, last.outputs, head.inputs) == (6, 6, 6)


def test_a_tied_layer_that_loses_its_embedding_gets_a_weight_sharded_alike() -> None:
    case = a_decoder()
    without = edited(case, lambda path, placed: (placed,) if path == "4" else ())
    assert without.model.layers == (Linear(inputs=16, outputs=24),)
    assert without.layout.parameters["0.weight"] == CUT


def test_layers_that_refer_to_the_mesh_follow_its_changes() -> None:
    for case in (a_collective("all_gather", 12), a_collective("reduce_scatter", 12, axis=1)):
        result = reduced(case, lambda c: c.world_size > 1 and isinstance(c.model.layers[0], Collective))
        first = result.case.model.layers[0]
        assert isinstance(first, Collective)
        assert (first.mesh, first.axis, result.case.layout.mesh.shape) == ((2,), 0, (2,))


def cut(case: Case) -> bool:
    """Return whether any parameter is sharded over several ranks."""
    sizes = case.layout.mesh.shape
    return any(
        isinstance(p, Shard) and size > 1
        for where in case.layout.parameters.values()
        for p, size in zip(where, sizes, strict=True)
    )


def holds(case: Case, kind: type, **fields: object) -> bool:
    layers = [layer for _, layer in walk(case.model.layers) if isinstance(layer, kind)]
    return any(all(getattr(layer, name) == value for name, value in fields.items()) for layer in layers)


def reduced(case: Case, shows: Callable[[Case], bool], **options: object) -> Reduced:
    result = reduce(case, shows, **options)  # type: ignore[arg-type]
    assert result
    assert shows(result.case)
    return result


FAULTS: dict[str, tuple[Callable[[Case], bool], tuple[str, ...]]] = {
    "sharding": (cut, ("world size 2", "0.weight sharded along dim 0 over tp")),
    "clipping": (
        lambda c: cut(c) and c.training.clip_norm is not None,
        ("world size 2", "clipping at 1", "0.weight sharded along dim 0 over tp"),
    ),
    "state": (
        lambda c: cut(c) and c.training.steps > 1 and c.training.optimizer != "sgd",
        ("world size 2", "2 steps", "optimizer momentum", "0.weight sharded along dim 0 over tp"),
    ),
    "parts": (
        lambda c: c.training.accumulation > 1 and Shard(0) in c.layout.batch and c.world_size > 1,
        ("world size 2", "accumulation 2", "the batch cut along dim 0 over dp"),
    ),
    "dtype": (
        lambda c: c.dtype == "bfloat16" and holds(c, LayerNorm),
        ("layer 0 is LayerNorm, not RMSNorm", "dtype bfloat16"),
    ),
    "grouped": (
        lambda c: any(isinstance(x, Attention) and x.kv_heads < x.heads for _, x in walk(c.model.layers)),
        ("layer 0 is Attention, not Linear", "layer 0 has grouped heads", "layer 0 has 2 heads"),
    ),
    "tied": (
        lambda c: holds(c, Linear, tied=True),
        (
            "layer 1, Linear",
            "layer 0, Embedding",
            "layer 0 is Embedding, not Linear",
            "layer 1 is tied to the embedding",
        ),
    ),
    "uneven": (
        lambda c: cut(c) and uneven_cuts(c) > 0,
        (
            "world size 2",
            "width 3, which 2 ranks do not share evenly",
            "0.weight sharded along dim 0 over tp",
        ),
    ),
    "options": (
        lambda c: c.replication.static_graph and c.start.marked == "before",
        ("static_graph True", "marked before"),
    ),
    "ignored": (
        lambda c: c.data.ignored > 0 and c.training.accumulation == 1,
        ("loss cross_entropy", "25% of the targets ignored"),
    ),
}


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "ignored"])
def test_the_conditions_are_what_the_fault_needs(name: str) -> None:
    shows, needed = FAULTS[name]
    result = reduced(a_decoder(dtype="bfloat16"), shows)
    assert result.conditions == needed
    assert result.complete
    assert result.evaluations <= BUDGET


def test_a_sharding_fault_reduces_to_two_ranks_and_one_axis() -> None:
    result = reduced(a_decoder(), cut)
    assert (result.case.layout.mesh.axes, len(result.case.model.layers)) == ((("tp", 2),), 1)
    assert result.case.training == Training(learning_rate=result.case.training.learning_rate)


def test_a_fault_of_two_axes_keeps_both() -> None:
    result = reduced(
        a_decoder(), lambda c: len(c.layout.mesh.axes) == 2 and cut(c) and Shard(0) in c.layout.batch
    )
    assert result.case.layout.mesh.axes == (("dp", 2), ("tp", 2)) or result.case.world_size < 4
    assert "mesh axis dp=2" in result.conditions or result.case.layout.mesh.shape[0] == 1


def test_a_case_that_does_not_show_the_fault_is_not_reduced() -> None:
    assert reduce(a_decoder(), lambda _case: False) is None


@pytest.mark.parametrize("name", FAULTS)
def test_the_result_does_not_depend_on_the_number_of_parallel_runs(name: str) -> None:
    shows, _ = FAULTS[name]
    case = (
        a_decoder(dtype="bfloat16")
        if name != "ignored"
        else a_case(
            (Linear(inputs=9, outputs=9),),
            training=Training(loss="cross_entropy", steps=3),
            fed=Data(batch=20, ignored=0.25),
        )
    )
    one, four = reduced(case, shows), reduced(case, shows, parallel=4, budget=4 * BUDGET)
    assert (one.case, one.conditions) == (four.case, four.conditions)
    assert one.evaluations <= four.evaluations


def test_a_search_goes_on_while_a_case_runs_that_it_does_not_need_yet() -> None:
    """Three of four layers show the fault, two run meanwhile; what is tried of the three starts at once."""
    went_on = threading.Event()

    def shows(case: Case) -> bool:
        match len(case.model.layers):
            case 1:
                went_on.set()
                return False
            case 2:
                assert went_on.wait(60.0), "the search waits for a case that it does not need yet"
                return False
            case _:
                return True

    def fewer(case: Case) -> Iterator[Candidate]:
        layers = case.model.layers
        return (("", a_case(layers[:count])) for count in range(len(layers) - 1, max(0, len(layers) - 3), -1))

    four = a_case((Linear(inputs=4, outputs=4),) * 4)
    result = reduce(four, shows, parallel=2, moves=[fewer])
    assert result is not None
    assert len(result.case.model.layers) == 3


def test_the_first_simpler_case_runs_while_the_case_itself_is_run_again() -> None:
    both = threading.Barrier(2)

    def shows(case: Case) -> bool:
        if len(case.model.layers) > 1:
            both.wait(60.0)
        return len(case.model.layers) > 1

    def fewer(case: Case) -> Iterator[Candidate]:
        return (("a layer", a_case(case.model.layers[:count])) for count in range(2, len(case.model.layers)))

    three = a_case((Linear(inputs=4, outputs=4),) * 3)
    result = reduce(three, shows, parallel=2, moves=[fewer])
    assert result is not None
    assert len(result.case.model.layers) == 2


def test_an_exception_from_a_case_that_is_only_expected_ends_the_reduction_too() -> None:
    def shows(case: Case) -> bool:
        if len(case.model.layers) == 3:
            return True
        msg = "the worker is gone"
        raise InfrastructureError(msg)

    def fewer(case: Case) -> Iterator[Candidate]:
        return (("a layer", a_case(case.model.layers[:count])) for count in range(2, len(case.model.layers)))

    with pytest.raises(InfrastructureError, match="is gone"):
        reduce(a_case((Linear(inputs=4, outputs=4),) * 3), shows, parallel=2, moves=[fewer])


def test_no_case_is_run_twice_and_no_impossible_case_is_run() -> None:
    requests: list[Case] = []
    lock = threading.Lock()

    def shows(case: Case) -> bool:
        with lock:
            requests.append(case)
        return cut(case)

    result = reduced(
        a_decoder(), shows, possible=lambda case: not holds(case, Linear, bias=False), parallel=3
    )
    requests.pop()  # `reduced` asks itself
    assert len(requests) == len({case.id for case in requests}) == result.evaluations
    assert not any(holds(case, Linear, bias=False) for case in requests)


@pytest.mark.long
def test_the_budget_ends_a_reduction_with_the_best_so_far() -> None:
    case = a_decoder()
    for budget in range(1, 12):
        result = reduced(case, cut, budget=budget)
        assert result.evaluations <= budget
        assert measure(result.case) <= measure(case)
    assert not reduced(case, cut, budget=3).complete


def test_an_interrupted_reduction_resumes_where_it_stopped(tmp_path: Path) -> None:
    case, file = a_decoder(), tmp_path / "reduction.jsonl"
    whole = reduced(case, cut)
    spent, result = 0, None
    while result is None or not result.complete:
        result = reduced(case, cut, budget=5, journal=ReductionJournal(file))
        spent += result.evaluations
    assert (result.case, result.conditions, spent) == (whole.case, whole.conditions, whole.evaluations)


def test_an_infrastructure_error_ends_a_reduction_and_keeps_its_journal(tmp_path: Path) -> None:
    file, left = tmp_path / "reduction.jsonl", [6]

    def shows(case: Case) -> bool:
        left[0] -= 1
        if not left[0]:
            msg = "a node was lost"
            raise InfrastructureError(msg)
        return cut(case)

    with pytest.raises(InfrastructureError, match="a node was lost"):
        reduce(a_decoder(), shows, journal=ReductionJournal(file))
    assert len(file.read_text().splitlines()) == 5
    whole, rest = reduced(a_decoder(), cut), reduced(a_decoder(), cut, journal=ReductionJournal(file))
    assert (rest.case, rest.evaluations) == (whole.case, whole.evaluations - 5)


@pytest.mark.parametrize(
    "content", [b"{}\n", b"\xff\n", b"[" * 10**6 + b"\n", b'{"case": 1e999, "shows": 0}\n']
)
def test_an_incomplete_last_line_of_a_journal_is_ignored_and_other_damage_is_set_aside(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "reduction.jsonl"
    ReductionJournal(file).add("0" * 12, shows=True)
    with file.open("ab") as lines:
        lines.write(b'{"case": "1')
    assert (ReductionJournal(file).get("0" * 12), ReductionJournal(file).get("1" * 12)) == (True, None)
    file.write_bytes(content)
    kept = tmp_path / "reduction.jsonl.damaged"
    journal = ReductionJournal(file)
    assert re.fullmatch(
        rf"{file} is no journal of a reduction: .*; moved to {kept}, and the reduction starts anew",
        journal.damage,
    )
    assert (journal.get("0" * 12), kept.read_bytes(), file.exists()) == (None, content, False)
    journal.add("1" * 12, shows=False)
    assert (ReductionJournal(file).get("1" * 12), ReductionJournal(file).damage) == (False, "")
    ReductionJournal(tmp_path / "none.jsonl").close()
    assert not (tmp_path / "none.jsonl").exists()


def test_a_learning_rate_for_large_numbers_does_not_hide_a_fault_with_normal_numbers() -> None:
    case = a_case(fed=Data(batch=4, regime="large"), training=Training(learning_rate=2.0**-24))
    result = reduced(
        case, lambda c: c.training.learning_rate * (1024 if c.data.regime == "large" else 1) > 1e-5
    )
    assert result.case.data.regime == "normal"
    assert "regime large" not in result.conditions


def test_uneven_sizes_stay_uneven_on_fewer_ranks() -> None:
    layers = (Linear(inputs=4, outputs=4),)
    case = a_case(layers, mesh=(("tp", 3),), batch=(Replicate(),), sharded={"0.weight": (Shard(0),)})
    result = reduced(case, lambda c: uneven_cuts(c) > 0)
    assert (result.case.world_size, result.case.model.outputs) == (2, 3)


def test_every_simplification_has_a_rich_case_to_simplify() -> None:
    idle = [
        each.__name__
        for each in simplifications()
        if not any(any(each(case)) for case in (*RICH, PROGRAM, UNUSED))
    ]
    assert not idle, "RICH needs a case that has what these take away"


def test_every_simplification_has_a_unique_name_and_a_docstring() -> None:
    names = [simplification.__name__ for simplification in simplifications()]
    assert len(names) == len(set(names)) > 20
    assert names[0] == "one_device", "it removes the most, and is tried alone"
    assert all(simplification.__doc__ for simplification in simplifications())


def test_every_field_of_a_case_is_listed_here() -> None:
    """A new field of training or data needs a simplification, or an entry in this list."""
    kept = {"learning_rate", "optimizer", "steps", "accumulation", "clip_norm", "loss", "checkpointing"}
    assert set(Training.__struct_fields__) == kept
    assert set(Data.__struct_fields__) == {"batch", "regime", "ignored", "learnable"}
    assert {field.name for field in msgspec.structs.fields(Case)} == {
        *(
            "path",
            "model",
            "layout",
            "training",
            "data",
            "dtype",
            "replication",
            "start",
            "sdpa",
            "spelling",
            "features",
            "sharding",
            "regions",
            "dispatch",
            "pipeline",
            "seed",
            "schema",
        )
    }


def test_a_case_is_less_where_its_measure_is() -> None:
    measures = [(case, measure(case)) for case in RICH]
    less = [[is_less(case, most) for _, most in measures] for case, _ in measures]
    assert less == [[own < most for _, most in measures] for _, own in measures]
    assert any(map(any, less))
