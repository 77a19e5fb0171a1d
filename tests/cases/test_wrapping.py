"""What wrappers are told: the options of `fully_shard`, and what tensor parallelism cuts."""

import json

import msgspec
import pytest
from samples import a_case

from difftest.cases.case import Case
from difftest.cases.gathered import gathered_alone, gathered_together
from difftest.cases.layers.embedding import Embedding
from difftest.cases.layers.linear import Linear
from difftest.cases.layers.residual import Residual
from difftest.cases.parts import parts
from difftest.cases.resets import option_resets
from difftest.cases.wrapping import Regions, Sharding
from difftest.findings.facts import facts
from difftest.reduce.measure import measure
from difftest.reduce.simplifications.options import default_options

SHARDING = Sharding(reshard_after_forward=2, synced="every", summed=True)
REGIONS = Regions(sequence=True, loss="images", weighted=True)
BLOCK = Residual(layers=(Linear(inputs=4, outputs=4),))
NESTED = (Embedding(vocabulary=8, width=4), BLOCK, Residual(layers=(BLOCK,)), Linear(inputs=4, outputs=8))


def test_a_case_without_them_has_the_text_that_it_had() -> None:
    held = json.loads(a_case().to_json())
    assert not {"sharding", "regions"} & {*held}
    assert a_case(sharding=Sharding(), regions=Regions()) == a_case()


def test_a_case_with_them_has_those_that_are_not_at_their_defaults_and_another_id() -> None:
    case = a_case(sharding=SHARDING, regions=REGIONS)
    held = json.loads(case.to_json())
    assert held["sharding"] == {"reshard_after_forward": 2, "synced": "every", "summed": True}
    assert held["regions"] == {"sequence": True, "loss": "images", "weighted": True}
    assert Case.from_json(case.to_json()) == case
    assert len({case.id, a_case().id, a_case(sharding=SHARDING).id}) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reshard_after_forward": 0}, "allowed: true, false, or 1 to 64 ranks"),
        ({"gradient_divide_factor": 0.0}, "allowed: above 0, to 1024"),
        ({"synced": "never"}, "Invalid enum value 'never'"),
        ({"mesh_dims": True}, "unknown field"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], message: str) -> None:
    text = json.loads(a_case().to_json()) | {"sharding": options}
    with pytest.raises(Exception, match=message):
        Case.from_json(json.dumps(text))


def test_every_option_is_reset_alone_and_makes_a_case_simpler() -> None:
    case = a_case(sharding=SHARDING, regions=REGIONS)
    resets = dict(option_resets(case))
    assert {name.partition("=")[0] for name in resets} == {
        "sharding.reshard_after_forward",
        "sharding.synced",
        "sharding.summed",
        "regions.sequence",
        "regions.loss",
        "regions.weighted",
    }
    assert resets["sharding.synced=every"] == a_case(
        sharding=Sharding(reshard_after_forward=2, summed=True), regions=REGIONS
    )
    simpler = [candidate for _, candidate in default_options(case)]
    assert all(measure(candidate) < measure(case) for candidate in simpler)
    assert {reset.id for reset in resets.values()} <= {one.id for one in simpler}


def test_findings_and_coverage_name_them() -> None:
    case = a_case(sharding=SHARDING, regions=Regions(loss="rows"))
    assert facts(case)["wrapping"] == (
        " sharding.reshard_after_forward=2  sharding.summed=True  sharding.synced=every  regions.loss=rows "
    )
    assert {"sharding synced=every", "regions loss=rows"} < {*parts(case)["options"]}


def test_coverage_counts_options_without_the_names_of_parameters() -> None:
    case = a_case(NESTED, sequence=4)
    name = next(iter(case.model.parameters()))
    ignoring = msgspec.structs.replace(case, sharding=Sharding(ignored=name))
    assert "sharding ignored" in parts(ignoring)["options"]


@pytest.mark.parametrize(
    ("wrapped", "alone"),
    [
        ("blocks", ["2.0", "2", "1"]),
        ("layers", ["3", "2.0.0", "1.0", "0"]),
        ("whole", []),
        ("groups", ["2.0.0", "1.0"]),
    ],
)
def test_a_case_names_the_modules_that_are_gathered_alone(wrapped: str, alone: list[str]) -> None:
    case = a_case(NESTED, sequence=4, sharding=Sharding(wrapped=wrapped))  # type: ignore[arg-type]
    assert gathered_alone(case) == alone
    assert gathered_together(case) == (["0", "3"] if wrapped == "groups" else [])


def test_no_module_that_shares_a_parameter_is_gathered_alone() -> None:
    tied = msgspec.structs.replace(NESTED[-1], tied=True, bias=False)
    case = a_case((*NESTED[:-1], tied), sequence=4, sharding=Sharding(wrapped="layers"))
    assert gathered_alone(case) == ["2.0.0", "1.0"]
