"""The ledger's entries about features of replicas and of shards mean no other case of them."""

import msgspec
import pytest
from samples import a_case

from difftest.cases.options import Feature
from difftest.findings.ledger import read_ledger

JOINED = Feature(name="uneven_inputs", options={"batches": 1, "ranks": 1, "first": True, "shrinking": False})
SHARDED = Feature(name="sharded_optimizer", options={"bucket_view": True})


def upstream_of(path: str, dtype: str, *features: Feature) -> set[str]:
    """The scripts of the entries that cover a case with these features."""
    case = msgspec.structs.replace(a_case(), path=path, dtype=dtype, features=features)
    covering = (one for one in read_ledger().entries if one.decided_by and one.covers(case))
    return {entry.upstream.rpartition("/")[2] for entry in covering}


@pytest.mark.parametrize("features", [(JOINED, SHARDED), (SHARDED, JOINED)])
def test_a_sharded_optimizer_is_excused_beside_uneven_inputs(features: tuple[Feature, ...]) -> None:
    assert "join_of_sharded_optimizer.py" in upstream_of("replicated", "float32", *features)


@pytest.mark.parametrize("feature", [JOINED, SHARDED], ids=lambda feature: feature.name)
def test_neither_of_both_is_excused_alone(feature: Feature) -> None:
    assert "join_of_sharded_optimizer.py" not in upstream_of("replicated", "float32", feature)


@pytest.mark.parametrize("nesterov", [False, True])
def test_muon_in_bfloat16_is_excused_without_nesterov_alone(*, nesterov: bool) -> None:
    used = Feature(name="muon", options={"nesterov": nesterov, "rate": 0.03125})
    excused = "muon_momentum_in_bfloat16.py" in upstream_of("shards", "bfloat16", used)
    assert excused is not nesterov
