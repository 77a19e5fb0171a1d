"""Cases: their canonical JSON, their ids, and invalid cases."""

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import DEEP, a_case, tensor_parallel_case

from difftest.cases.case import SCHEMA, Case, Data, Training
from difftest.cases.layer import Layer
from difftest.cases.layers.attention import Attention
from difftest.cases.layers.conv import Conv
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.layer_norm import LayerNorm
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.layers.rms_norm import RMSNorm
from difftest.cases.layout import AXIS_NAMES, Replicate, Shard
from difftest.cases.wrapping import Sharding
from difftest.ground.errors import DamagedError, UsageError

GOLDEN = "796af2f2853b"
TRANSFORMER: tuple[Layer, ...] = (
    Embedding(vocabulary=8, width=4),
    Residual(layers=(LayerNorm(width=4), Attention(width=4, heads=2, kv_heads=1, segments=True))),
    Conv(inputs=4, outputs=4),
    RMSNorm(width=4),
    Linear(inputs=4, outputs=8, bias=False, tied=True),
)
VALID = a_case(
    TRANSFORMER,
    sequence=4,
    training=Training(loss="cross_entropy", clip_norm=1.0),
    fed=Data(batch=4, ignored=0.25),
).to_json()

trainings = st.builds(
    Training,
    optimizer=st.sampled_from(("sgd", "momentum", "adam", "adamw")),
    learning_rate=st.floats(0, 10) | st.integers(0, 10),
    steps=st.integers(1, 200),
    accumulation=st.sampled_from((1, 2, 4)),
    clip_norm=st.none() | st.floats(1e-6, 1e6) | st.integers(1, 1000),
)
cases = st.builds(
    a_case,
    st.sampled_from(((Linear(inputs=4, outputs=2),), DEEP)),
    mesh=st.tuples(st.tuples(st.sampled_from(AXIS_NAMES), st.integers(1, 8))),
    batch=st.sampled_from(((Shard(0),), (Replicate(),))),
    training=trainings,
    fed=st.builds(
        Data,
        batch=st.sampled_from((4, 8)),
        regime=st.sampled_from(("normal", "exact", "ties")),
        learnable=st.booleans(),
    ),
    path=st.text(max_size=8),
    dtype=st.sampled_from(("float32", "bfloat16", "float16")),
    seed=st.integers(0, 2**63 - 1),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def read(text: bytes | str) -> Case | UsageError:
    """The case, or the usage error; any other exception fails the calling test."""
    try:
        return Case.from_json(text)
    except UsageError as error:
        return error


@given(cases)
def test_a_case_is_the_same_after_a_round_trip_and_keeps_its_id(case: Case) -> None:
    again = Case.from_json(case.to_json())
    assert again == case
    assert (again.id, again.to_json()) == (case.id, case.to_json())


@given(cases, cases)
def test_different_cases_have_different_ids(one: Case, other: Case) -> None:
    assert (one.id == other.id) == (one == other)


def test_an_id_never_changes() -> None:
    assert tensor_parallel_case(seed=7).id == GOLDEN


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_an_id_is_the_same_under_every_hash_seed(hash_seed: str) -> None:
    program = "import sys; from difftest.cases.case import Case; print(Case.from_json(sys.stdin.read()).id)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=VALID,
        capture_output=True,
        check=True,
        env={"PYTHONHASHSEED": hash_seed},
    )
    assert done.stdout.decode().strip() == Case.from_json(VALID).id


def test_an_integer_and_its_float_give_the_same_id() -> None:
    one, other = (a_case(training=Training(learning_rate=rate, clip_norm=rate)) for rate in (1, 1.0))
    assert one.id == other.id


def test_json_is_readable_whatever_the_order_of_its_keys() -> None:
    shuffled = json.dumps(dict(reversed(json.loads(VALID).items())), indent=4)
    assert Case.from_json(shuffled).id == Case.from_json(VALID).id


def test_unsharded_is_the_same_case_on_one_rank() -> None:
    case = tensor_parallel_case()
    alone = case.unsharded()
    assert alone.world_size == 1
    assert {*alone.layout.parameters.values(), alone.layout.batch} == {(Replicate(),)}
    assert msgspec.structs.replace(alone, layout=case.layout) == case
    assert alone.unsharded() == alone


def test_one_device_has_no_number_of_ranks_to_shard_over_again() -> None:
    """`fully_shard` refuses a number that the ranks are no multiple of."""
    counted, other = Sharding(reshard_after_forward=4, offload=True), Sharding(reshard_after_forward=False)
    assert a_case(sharding=counted).unsharded().sharded_by == Sharding(offload=True)
    assert a_case(sharding=other).unsharded().sharded_by == other


@pytest.mark.parametrize("version", [SCHEMA + 1, 10**30])
def test_a_newer_schema_is_refused_whether_or_not_the_rest_can_be_read(version: int) -> None:
    fields = json.loads(VALID) | {"schema": version}
    for text in (json.dumps(fields), json.dumps(fields | {"unheard": "of"})):
        with pytest.raises(
            UsageError,
            match=rf"schema {version}; this program reads up to {SCHEMA}: it was written by a newer version",
        ):
            Case.from_json(text)


@given(st.data())
def test_damaged_bytes_give_a_case_or_a_usage_error(data: st.DataObject) -> None:
    text = bytearray(VALID)
    fragments = st.sampled_from(
        (
            b"",
            b"NaN",
            b"1e999",
            b"-1",
            b"null",
            b"9" * 5000,
            b"[" * 3000,
            b"\xff",
            b'"',
            b"}",
            b"{",
            b"\\ud800",
        )
    )
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        text[start : start + data.draw(st.integers(0, 8))] = data.draw(fragments | st.binary(max_size=3))
    read(bytes(text))


@given(anything.map(json.dumps) | st.binary(max_size=30))
@example("[" * 100_000)
@example('{"model":' * 100_000)
@example('{"schema":' + "9" * 10_000 + "}")
@example('{"schema": 2.5}')
@example(b"\xff\xfe")
@example("\ud800")
def test_text_that_is_no_case_gives_a_usage_error(text: bytes | str) -> None:
    message = read(text)
    assert isinstance(message, UsageError)
    assert str(message).startswith("case ")


@given(st.data(), anything)
def test_any_value_in_the_place_of_another_gives_a_case_or_a_usage_error(
    data: st.DataObject, value: object
) -> None:
    fields = json.loads(VALID)
    at: Any = fields
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = value
    read(json.dumps(fields))


@pytest.mark.parametrize("key", sorted(json.loads(VALID)))
def test_an_error_says_where_the_text_is_wrong(key: str) -> None:
    with pytest.raises(UsageError, match=rf"case cannot be read: .*`\$\.{key}`"):
        Case.from_json(json.dumps(json.loads(VALID) | {key: []}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed is -1; allowed: 0 to 9223372036854775807"),
        ({"batch": (Shard(1),)}, "the batch has 1 dims; a placement shards dim 1"),
        ({"sharded": {"0.bias": (Shard(1),)}}, "0.bias has 1 dims; a placement shards dim 1"),
        (
            {"sharded": {"1.weight": (Replicate(),)}},
            "layout and model disagree on the parameters ['1.weight']; every parameter needs placements",
        ),
        ({"training": Training(accumulation=3)}, "batch 4 does not divide into 3 accumulation parts"),
        ({"fed": Data(batch=4, ignored=0.5)}, "ignored is 0.5; only cross_entropy has ignored targets"),
    ],
)
def test_contradicting_parts_are_refused_with_a_reason(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"seed|dims|parameters|batch|ignored") as caught:
        a_case(**changes)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Training(learning_rate=float("nan")), "learning_rate is nan; allowed: 0.0 to 10.0"),
        (lambda: Training(steps=0), "steps is 0; allowed: 1 to 200"),
        (lambda: Training(accumulation=9), "accumulation is 9; allowed: 1 to 8"),
        (lambda: Training(clip_norm=0.0), "clip_norm is 0.0; allowed: 1e-06 to 1000000.0"),
        (lambda: Data(batch=0), "batch is 0; allowed: 1 to 256"),
        (lambda: Data(batch=1, ignored=1.0), "ignored is 1.0; allowed: 0.0 to 0.9"),
    ],
)
def test_a_number_out_of_range_is_refused_with_the_range(make: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="allowed") as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("old", "new"), [('"type":"linear"', '"type":"scale"'), ('"seed":', '"flavour":1,"seed":')]
)
def test_a_kind_of_layer_or_a_field_that_is_not_there_yet_is_no_damage(old: str, new: str) -> None:
    text = a_case().to_json().decode().replace(old, new, 1)
    assert new in text
    with pytest.raises(UsageError, match="newer version") as raised:
        Case.from_json(text)
    assert not isinstance(raised.value, DamagedError)
