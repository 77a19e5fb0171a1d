"""Generated cases: valid, varied, and the same at an index whoever requests them."""

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
import pytest
from generated_cases import ALONE, SEED, GeneratedCases
from hypothesis import given
from hypothesis import strategies as st
from quiet_draws import quietly

from difftest.cases import numbers
from difftest.cases.case import Case
from difftest.cases.exactness import inexact
from difftest.cases.layers import walk
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import MOST_RANKS, Shard, local_slices
from difftest.ground.errors import UsageError
from generators import cases as generated
from generators.cases import case_at, cases, pool_at
from generators.explore import BLOCK, POOL, Walk, cost_of, features, pairs
from generators.models import MOST_PARAMETERS
from generators.paths import flash_attention
from generators.signatures import expected

ROOT = Path(__file__).parents[2]
COUNT = 200


@pytest.fixture(scope="session")
def sample(generated_cases: GeneratedCases) -> tuple[Case, ...]:
    """The first `COUNT` cases of the seed."""
    first, second = generated_cases.hundreds(0, 1)
    return first + second


@quietly()
@given(cases(paths=ALONE))
def test_a_case_is_read_back_from_its_json(case: Case) -> None:
    assert Case.from_json(case.to_json()) == case
    assert Case.from_json(case.to_json()).id == case.id


@pytest.mark.long
@quietly()
@given(
    st.sampled_from((2, 3, 4, 8, 16, MOST_RANKS)).flatmap(
        lambda most: st.tuples(st.just(most), cases(paths=ALONE, max_world_size=most))
    )
)
def test_no_case_has_more_ranks_than_requested(drawn: tuple[int, Case]) -> None:
    most, case = drawn
    assert 2 <= case.world_size <= most


@quietly()
@given(cases(paths=ALONE))
def test_every_rank_has_a_row_of_every_accumulation_part(case: Case) -> None:
    rows = case.data.batch // case.training.accumulation
    for rank in range(case.world_size):
        (held,) = local_slices((rows,), case.layout.batch, case.layout.mesh, rank)
        assert held.stop > held.start


@quietly()
@given(cases(max_world_size=MOST_RANKS))
def test_a_case_of_the_exact_regime_is_exact(case: Case) -> None:
    assert case.data.regime != "exact" or inexact(case) is None


@quietly()
@given(cases(paths=ALONE))
def test_only_comparable_options_are_combined(case: Case) -> None:
    training, fed = case.training, case.data
    assert case.dtype != "float16" or (
        fed.regime not in ("large", "tiny") and not training.optimizer.startswith("adam")
    )
    assert case.dtype == "float32" or (
        training.steps <= 2 and not fed.learnable and (fed.regime != "exact" or not inexact(case))
    )
    assert math.frexp(training.learning_rate)[0] == 0.5
    assert not training.optimizer.startswith("adam") or fed.learnable or training.learning_rate <= 0.01
    assert fed.regime != "large" or training.optimizer.startswith("adam") or training.learning_rate <= 2**-12
    assert training.loss == "mse" or case.model.outputs >= 2
    assert fed.learnable == (training.steps >= 20)


@quietly()
@given(cases(paths=ALONE))
def test_models_are_small(case: Case) -> None:
    most = flash_attention.MOST_PARAMETERS if case.path == "flash_attention" else MOST_PARAMETERS
    assert sum(math.prod(shape) for shape in case.model.parameters().values()) < most
    assert len(list(walk(case.model.layers))) <= 20


@pytest.mark.parametrize("paths", [None, ("tensor_parallel", "data_parallel"), ("fully_sharded",)])
def test_consecutive_cases_cover_each_path_once(paths: tuple[str, ...] | None) -> None:
    names = sorted(paths or ALONE)
    paths_drawn = [case_at(SEED, index, paths=paths).path for index in range(2 * len(names) + 1)]
    for start in range(len(names) + 1):
        assert sorted(paths_drawn[start : start + len(names)]) == names


@pytest.mark.long
def test_a_case_drawn_alone_in_another_process_is_the_one_in_the_sequence(sample: tuple[Case, ...]) -> None:
    wanted = (7, 3, BLOCK + 2)
    ids = f"[case_at({SEED}, i).id for i in {wanted}]"
    code = f"from generators.cases import case_at; import json; print(json.dumps({ids}))"
    environment = {**os.environ, "PYTHONHASHSEED": "4321"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env=environment, text=True, cwd=ROOT
    )
    assert json.loads(done.stdout) == [sample[index].id for index in wanted]


def test_the_order_of_requests_does_not_matter() -> None:
    ids = [case_at(SEED + 1, index).id for index in (9, 2, BLOCK, 9, 0)]
    assert ids[0] == ids[3]
    assert ids == [case_at(SEED + 1, index).id for index in (9, 2, BLOCK, 9, 0)]
    again = [case_at(SEED + 1, index, paths=reversed(ALONE)).id for index in (9, 2)]
    assert again == ids[:2]


@pytest.mark.long
def test_concurrent_threads_get_the_cases_of_a_single_thread() -> None:
    """Searches for defects use threads; two once both added the next case, which shifted all after it."""
    count, threads = 12, 4
    together = threading.Barrier(threads)

    def draw_all(_thread: int) -> list[str]:
        together.wait()
        return [case_at(SEED + 2, index).id for index in range(count)]

    with ThreadPoolExecutor(threads) as executor:
        ids = list(executor.map(draw_all, range(threads)))
    generated._walk.cache_clear()  # noqa: SLF001  the sequence of the threads must not answer below
    assert ids == [[case_at(SEED + 2, index).id for index in range(count)]] * threads


def test_cases_differ_within_a_seed_and_between_seeds(sample: tuple[Case, ...]) -> None:
    assert len({case.id for case in sample}) == COUNT
    assert len({case.seed for case in sample}) == COUNT
    assert case_at(SEED, 0).seed != case_at(SEED + 1, 0).seed


@pytest.mark.parametrize(
    ("seed", "index", "paths", "size"),
    [
        (-1, 0, None, 8),
        (2**63, 0, None, 8),
        (0, -1, None, 8),
        (0, 0, ("sideways",), 8),
        (0, 0, (), 8),
        (0, 0, None, 0),
        (0, 0, None, 65),
    ],
)
def test_a_number_or_path_out_of_range_is_a_usage_error(
    seed: int, index: int, paths: tuple[str, ...] | None, size: int
) -> None:
    with pytest.raises(UsageError, match="allowed"):
        case_at(seed, index, paths=paths, max_world_size=size)


def test_two_hundred_cases_have_every_feature(sample: tuple[Case, ...]) -> None:
    shown = {feature for case in sample for feature in features(case)}
    layers = [
        "Linear",
        "Activation",
        "LayerNorm",
        "RMSNorm",
        "Embedding",
        "Attention",
        "Conv",
        "Residual",
        "FlashAttention",
    ]
    details = [
        "tied",
        "causal",
        "not causal",
        "grouped heads",
        "equal heads",
        "segments True",
        "relu",
        "gelu",
        "silu",
        "tanh",
    ]
    regimes = [f"regime {name}" for name in ("normal", "exact", "large", "tiny", "ties", "zeros")]
    optimizers = [f"optimizer {name}" for name in ("sgd", "momentum", "adam", "adamw")]
    sizes = [f"{ranks} ranks" for ranks in range(2, 9)] + [f"{axes} axes" for axes in (1, 2, 3)]
    trained = [
        "loss mse",
        "loss cross_entropy",
        "float32",
        "bfloat16",
        "float16",
        "clipped",
        "several parts",
        "ignored targets",
        "learnable",
    ]
    uneven = ["uneven parameters", "uneven batch"]
    paths = [f"path {name}" for name in ALONE]
    assert not {*layers, *details, *regimes, *optimizers, *sizes, *trained, *uneven, *paths} - shown


def test_most_cases_have_small_worlds_float32_and_short_runs(sample: tuple[Case, ...]) -> None:
    assert sum(case.world_size in (2, 4) for case in sample) > COUNT / 3
    assert 0.6 < sum(case.dtype == "float32" for case in sample) / COUNT < 0.85
    assert sum(case.training.steps <= 3 for case in sample) > 0.75 * COUNT


def test_the_numbers_of_every_case_are_finite(sample: tuple[Case, ...]) -> None:
    for case in sample:
        first = numbers.batch(case, 0)
        arrays = [*numbers.weights(case).values(), first.inputs, first.targets]
        assert all(np.isfinite(array).all() for array in arrays), case.id
        assert first.count > 1 or case.model.outputs == 1 or case.training.loss == "cross_entropy"


def test_of_several_candidates_the_one_that_probably_reaches_most_is_chosen(sample: tuple[Case, ...]) -> None:
    first, *others = (
        case
        for case in sample
        if case.dtype == "float32" and case.world_size == 2 and not case.data.learnable
    )
    ordinary = [case for case in (first, *others) if case.data.regime != "exact"][:6]
    walk_ = Walk()
    walk_.choose(ordinary)
    worth = [sum(signature.things for signature in expected(features(case))) for case in ordinary]
    assert walk_.chosen[0] == ordinary[worth.index(max(worth))]
    assert min(worth) < max(worth)
    walk_.choose([walk_.chosen[0], *ordinary])
    assert walk_.chosen[1] != walk_.chosen[0]


def first_of_pool(index: int, chosen: Case) -> Case:
    """The first case of the pool from which `chosen` was chosen, without drawing the others."""
    decode = generated._decoder(chosen.path, 8)  # noqa: SLF001
    first = generated._drawn(decode, SEED, index, 0)  # noqa: SLF001
    assert first is not None
    return msgspec.structs.replace(first, seed=chosen.seed)


def things(cases: Iterable[Case]) -> int:
    """How many things the cases probably reach."""
    return sum(one.things for one in {one for case in cases for one in expected(features(case))})


def test_exploring_covers_and_reaches_more_than_taking_the_first_of_each_pool(
    sample: tuple[Case, ...],
) -> None:
    explored = {pair for case in sample[:BLOCK] for pair in pairs(case)}
    firsts = [first_of_pool(index, case) for index, case in enumerate(sample[:BLOCK])]
    assert firsts[7] == pool_at(SEED, 7, path=sample[7].path)[0]
    assert len(explored) > 1.05 * len({pair for case in firsts for pair in pairs(case)})
    assert things(sample[:BLOCK]) > 1.02 * things(firsts)


def test_a_pool_has_every_candidate_that_competes_with_the_first(sample: tuple[Case, ...]) -> None:
    for index, chosen in enumerate(sample[: len(ALONE)]):
        decode = generated._decoder(chosen.path, 8)  # noqa: SLF001
        drawn = [generated._drawn(decode, SEED, index, member) for member in range(POOL)]  # noqa: SLF001
        complete = [msgspec.structs.replace(case, seed=chosen.seed) for case in drawn if case is not None]
        assert len(complete) == POOL
        rivals = [case for case in complete if cost_of(case) == cost_of(complete[0])]
        pool = pool_at(SEED, index, path=chosen.path)
        assert [case for case in pool if cost_of(case) == cost_of(pool[0])] == rivals


@pytest.mark.long
def test_layers_that_can_be_sharded_are_drawn_sharded_and_whole() -> None:
    cut = {
        (type(layer).__name__, any(isinstance(p, Shard) for p in placed))
        for case in (case_at(SEED, index, paths=("tensor_parallel",)) for index in range(COUNT // 4))
        for path, layer in walk(case.model.layers)
        for name, placed in case.layout.parameters.items()
        if name.startswith(f"{path}.") and isinstance(layer, Linear | Conv | Attention)
    }
    assert {
        ("Linear", True),
        ("Linear", False),
        ("Conv", True),
        ("Attention", True),
        ("Attention", False),
    } <= cut
