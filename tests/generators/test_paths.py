"""The parallelism paths: the layout that each one chooses for any model."""

from collections.abc import Iterator

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from quiet_draws import quietly

from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.cases.layers import walk
from difftest.cases.layers.activation import Activation
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.redistribute import Redistribute
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import Layout, Mesh, Placement, Placements, Replicate, Shard
from difftest.cases.model import Model
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from difftest.jobs.ask.case_source import Drawing
from generators import layouts
from generators.cases import case_at, cases
from generators.models import models
from generators.paths import Path, chosen
from workers.backends import torch_fsdp

PATHS = "generators.paths"
R, S0, S1 = Replicate(), Shard(0), Shard(1)
BLOCK = Residual(
    layers=(
        RMSNorm(width=8),
        Linear(inputs=8, outputs=16),
        Activation(function="relu"),
        Linear(inputs=16, outputs=8),
    ),
)
MEGATRON = Model(
    layers=(BLOCK, Residual(layers=(RMSNorm(width=8), Attention(width=8, heads=4, kv_heads=2)))), sequence=4
)


def kinds(layout: Layout) -> set[Placements]:
    return set(layout.parameters.values())


@pytest.mark.parametrize("name", plugins.names(PATHS))
def test_every_path_has_the_functions_of_the_protocol(name: str) -> None:
    module = plugins.load(PATHS, name)
    wanted = [attribute for attribute in vars(Path) if not attribute.startswith("_")]
    assert all(callable(getattr(module, attribute)) for attribute in wanted)
    assert isinstance(module.IN_BLOCKS, bool)
    assert isinstance(module.DEFAULT, bool)


def test_where_none_is_named_these_paths_run() -> None:
    assert chosen(None) == (
        *("collectives", "data_parallel", "data_tensor", "flash_attention"),
        *("fully_sharded", "hybrid_sharded", "operators", "tensor_parallel"),
    )


@pytest.mark.parametrize(
    ("name", "axes"),
    [("data_parallel", ("dp",)), ("fully_sharded", ("dp_shard",)), ("tensor_parallel", ("tp",))],
)
@quietly(40)
@given(drawn=st.data())
def test_simple_paths_have_one_axis(name: str, axes: tuple[str, ...], drawn: st.DataObject) -> None:
    case = drawn.draw(cases(paths=(name,)))
    assert case.layout.mesh.names == axes
    assert case.path == name


@quietly(40)
@given(cases(paths=("data_parallel",)))
def test_data_parallel_shards_only_the_batch(case: Case) -> None:
    assert case.layout.batch == (S0,)
    assert kinds(case.layout) == {(R,)}


@quietly(40)
@given(cases(paths=("fully_sharded",)))
def test_fully_sharded_shards_the_batch_and_every_parameter(case: Case) -> None:
    assert case.layout.batch == (S0,)
    assert kinds(case.layout) == {(S0,)}


@quietly(40)
@given(cases(paths=("hybrid_sharded",)))
def test_hybrid_sharded_shards_parameters_over_the_inner_axis(case: Case) -> None:
    assert case.layout.mesh.names == ("dp_replicate", "dp_shard")
    assert case.layout.batch == (S0, S0)
    assert kinds(case.layout) == {(R, S0)}


@quietly(40)
@given(cases(paths=("tensor_parallel", "data_tensor")))
def test_a_tensor_parallel_axis_never_shards_the_batch_or_a_norm(case: Case) -> None:
    assert case.layout.mesh.names[-1] == "tp"
    assert case.layout.batch[-1] == R
    for path, layer in walk(case.model.layers):
        if type(layer).__name__ in ("LayerNorm", "RMSNorm"):
            assert case.layout.parameters[f"{path}.weight"][-1] == R


@pytest.mark.long
@quietly(40)
@given(cases(paths=("data_tensor",)))
def test_data_axes_shard_the_batch_and_only_dp_shard_shards_parameters(case: Case) -> None:
    layout = case.layout
    assert layout.batch == (*(S0,) * (len(layout.mesh.axes) - 1), R)
    for placements in kinds(layout):
        for axis, placement in zip(layout.mesh.names[:-1], placements, strict=False):
            assert placement in ((S0, R) if axis == "dp_shard" else (R,))
            assert placement == S0 or axis != "dp_shard" or placements[-1] == S0


@quietly(40)
@given(cases(paths=("collectives",)))
def test_a_collective_is_the_first_layer_and_every_rank_has_equally_many_rows(case: Case) -> None:
    first = case.model.layers[0]
    assert isinstance(first, Collective)
    assert first.mesh == case.layout.mesh.shape
    assert case.layout.batch == (S0,) * len(first.mesh)
    assert (case.data.batch // case.training.accumulation) % case.world_size == 0
    assert case.data.regime != "exact" or inexact(case) is None
    assert not case.data.learnable


@pytest.mark.long
def test_collectives_of_every_kind_and_dtype_are_mostly_exact() -> None:
    drawn = [case_at(5, index, paths=("collectives",)) for index in range(100)]
    kinds_ = {
        (layer.operation, layer.form)
        for case in drawn
        for layer in case.model.layers
        if isinstance(layer, Collective)
    }
    assert len(kinds_) == 12
    exact = [case.dtype for case in drawn if case.data.regime == "exact"]
    assert len(exact) > 35
    assert set(exact) == {"float32", "bfloat16", "float16"}


@pytest.mark.long
def test_redistributions_and_dims_sharded_twice_are_frequent_enough() -> None:
    drawn = [case_at(5, index, paths=("data_tensor",)) for index in range(60)]
    conversions = [
        layer.by for case in drawn for _, layer in walk(case.model.layers) if isinstance(layer, Redistribute)
    ]
    assert set(conversions) == {"redistribute", "full_tensor", "to_local"}
    assert sum(any(p.count(S0) > 1 for p in kinds(case.layout)) for case in drawn) >= 4


def over_tp(case: Case) -> dict[str, Placement]:
    return {name: placements[-1] for name, placements in case.layout.parameters.items()}


@quietly(40)
@given(cases(paths=("tensor_parallel", "data_tensor")))
def test_attention_is_sharded_by_whole_heads_or_not_at_all(case: Case) -> None:
    size, placed = case.layout.mesh.shape[-1], over_tp(case)
    for path, layer in walk(case.model.layers):
        if isinstance(layer, Attention):
            cut = tuple(placed[f"{path}.{name}.weight"] for name in "qkvo")
            assert cut == (R,) * 4 or (cut == (S0, S0, S0, S1) and layer.kv_heads % size == 0)


@quietly(40)
@given(cases(paths=("tensor_parallel", "data_tensor")))
def test_a_bias_is_sharded_like_the_outputs(case: Case) -> None:
    placed = over_tp(case)
    for path, layer in walk(case.model.layers):
        if isinstance(layer, Linear) and layer.bias:
            weight = placed["0.weight" if layer.tied else f"{path}.weight"]
            assert placed[f"{path}.bias"] == (S0 if weight == S0 else R)


def linears(model: Model) -> Iterator[tuple[str, Linear]]:
    return (
        (path, layer) for path, layer in walk(model.layers) if isinstance(layer, Linear) and not layer.tied
    )


@quietly(40)
@given(st.integers(2, 8).flatmap(lambda size: st.tuples(st.just(size), models(unit=size))), st.data())
def test_megatron_shards_evenly_and_pairs_every_row_sharding_with_a_column_sharding(
    drawn: tuple[int, Model], more: st.DataObject
) -> None:
    size, model = drawn
    placed = more.draw(layouts.megatron_placements(model=model, size=size))
    before: Placement = R
    for path, layer in linears(model):
        cut = placed[f"{path}.weight"]
        assert cut != S0 or layer.outputs % size == 0
        assert cut != S1 or (before == S0 and layer.inputs % size == 0)
        before = cut


def test_a_transformer_block_can_be_sharded_as_in_megatron() -> None:
    wanted = {
        "0.1.weight": S0,
        "0.1.bias": S0,
        "0.3.weight": S1,
        "0.3.bias": R,
        "1.1.q.weight": S0,
        "1.1.o.weight": S1,
        "0.0.weight": R,
    }
    placements = layouts.megatron_placements(model=MEGATRON, size=2)
    assert find(placements, lambda placed: wanted.items() <= placed.items(), settings=settings(database=None))


@given(
    st.integers(1, 64).flatmap(
        lambda most: st.tuples(st.just(most), layouts.meshes(axes=("dp", "tp"), max_world_size=most))
    )
)
def test_meshes_respect_the_requested_size(drawn: tuple[int, Mesh]) -> None:
    most, mesh = drawn
    assert min(2, most) <= mesh.world_size <= most
    assert all(1 <= size <= 8 for size in mesh.shape)


@pytest.mark.parametrize("size", [-1, 0, 65])
def test_a_mesh_of_no_ranks_or_too_many_is_a_usage_error(size: int) -> None:
    with pytest.raises(UsageError, match=f"max_world_size is {size}; allowed: 1 to 64"):
        layouts.meshes(axes=("dp",), max_world_size=size)


@pytest.mark.parametrize("path", ["experts", "pipelines"])
def test_a_path_that_needs_several_ranks_says_so(path: str) -> None:
    drawing = Drawing(seed=0, model=None, paths=(path,), max_world_size=1)
    with pytest.raises(UsageError, match=f"max_world_size is 1; allowed for the path {path}: 2 to 64"):
        drawing.case(next(drawing.numbers(1)))
    assert case_at(0, 0, paths=(path,), max_world_size=2).world_size == 2


def test_fsdp_takes_no_mesh_of_three_axes_even_where_each_has_one_rank() -> None:
    cases = [case_at(0, index, max_world_size=1) for index in range(60)]
    axes = {len(case.layout.mesh.names) for case in cases if torch_fsdp.unsupported(case) is None}
    assert axes == {1, 2}
    assert max(len(case.layout.mesh.names) for case in cases) == 3
