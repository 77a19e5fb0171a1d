"""torchax on virtual CPU devices: agreement with the oracle, and the reasons for unsupported cases."""

import importlib.util
import itertools
from functools import cache

import msgspec
import pytest
from samples import a_case

from difftest.cases.case import Case, Data
from difftest.cases.layers.collective import Collective
from difftest.cases.layers.linear import Linear
from difftest.cases.layout import Replicate, Shard
from difftest.cases.options import Spelling
from difftest.findings.facts import facts
from difftest.judge.comparator import compare
from generators.cases import case_at
from workers.backends import candidates, torchax
from workers.isolate import sandbox

LARGEST, CASES = 4, 3
needs_torchax = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torchax", "flax"))),
    reason="needs torchax: pip install -e '.[torchax]'",
)


def test_it_runs_only_if_named() -> None:
    assert "torchax" not in candidates()
    assert list(candidates(("torchax",))) == ["torchax"]


def test_uneven_shards_are_unsupported() -> None:
    even = a_case(mesh=(("dp", 2),), batch=(Shard(0),), fed=Data(batch=4))
    assert torchax.unsupported(even) is None
    assert "equal pieces" in (
        torchax.unsupported(a_case(mesh=(("dp", 2),), batch=(Shard(0),), fed=Data(batch=5))) or ""
    )
    twice = msgspec.structs.replace(
        even.layout, parameters={"0.weight": (Shard(0),), "0.bias": (Replicate(),)}
    )
    assert torchax.unsupported(msgspec.structs.replace(even, layout=twice)) is None


def test_layers_that_call_a_framework_operator_are_unsupported() -> None:
    collective = Collective(operation="all_reduce", mesh=(2,), axis=0, width=4)
    case = a_case((collective, Linear(inputs=4, outputs=4)), mesh=(("dp", 2),), batch=(Shard(0),))
    assert "Collective" in (torchax.unsupported(case) or "")


@cache
def cases() -> list[Case]:
    drawn = (case_at(5, index, max_world_size=LARGEST) for index in itertools.count())
    able = (case for case in drawn if case.world_size > 1 and torchax.unsupported(case) is None)
    float32 = (case for case in able if case.dtype == "float32")  # see known/bfloat16_scalar_on_torchax.py
    return [without_forms(case) for case in itertools.islice(float32, CASES)]


def without_forms(case: Case) -> Case:
    """The case without usual forms, some of which train nothing on a device that is not the host.

    It is compiled cheaply.
    """
    return msgspec.structs.replace(case, spelling=Spelling(unoptimised=True))


@needs_torchax
@pytest.mark.slow
@pytest.mark.xla
@pytest.mark.parametrize(
    "index", [0, *(pytest.param(more, marks=pytest.mark.nightly) for more in range(1, CASES))]
)
def test_a_generated_case_agrees_with_the_oracle(index: int) -> None:
    case = cases()[index]
    comparison = compare(
        case,
        "torchax",
        torchax.SIDE,
        sandbox.run(case, "oracle", deadline=120),
        sandbox.run(case, "torchax", deadline=240),
    )
    assert comparison.verdict == "agree", comparison.divergences[:1]


@needs_torchax
@pytest.mark.slow
@pytest.mark.xla
def test_gspmd_partitions_where_jax_s_own_variable_asks_for_it() -> None:
    case = a_case(mesh=(("dp", 2),), batch=(Shard(0),), fed=Data(batch=4))
    by_shardy, by_gspmd = (
        sandbox.run(case, "torchax", options=options) for options in ({}, {torchax.SHARDY: "0"})
    )
    assert by_shardy.environment["partitioner"] == "shardy"
    assert by_gspmd.environment["partitioner"] == "gspmd"


@needs_torchax
@pytest.mark.slow
@pytest.mark.xla
def test_flash_attention_through_jax_agrees_with_the_oracle() -> None:
    drawn = (case_at(0, index, paths=("flash_attention",), max_world_size=2) for index in itertools.count())
    case = next(without_forms(case) for case in drawn if torchax.unsupported(case) is None)
    comparison = compare(
        case,
        "torchax",
        torchax.SIDE,
        sandbox.run(case, "oracle", deadline=120),
        sandbox.run(case, "torchax", deadline=240),
    )
    assert comparison.verdict == "agree", comparison.divergences[:1]


@needs_torchax
@pytest.mark.slow
@pytest.mark.xla
def test_a_running_mean_that_torchax_leaves_as_it_was_is_found() -> None:
    """What the block leaves in its buffers comes out of the compiled step, so that the batch is counted."""
    drawn = (case_at(0, index, paths=("blocks",), max_world_size=2) for index in itertools.count())
    able = (without_forms(case) for case in drawn if "block batch_norm; " in facts(case)["layer_options"])
    case = next(case for case in able if torchax.unsupported(case) is None and case.dtype == "float32")
    run = sandbox.run(case, "torchax", deadline=240)
    shown = compare(case, "torchax", torchax.SIDE, sandbox.run(case, "oracle", deadline=120), run)
    assert {one.check for one in shown.divergences} == {"buffers"}
    assert "running_" in shown.divergences[0].tensor
    assert "kept_statistics" in shown.divergences[0].predicted
