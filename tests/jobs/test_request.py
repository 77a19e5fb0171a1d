"""Requests: click's parameters are the fields of a command's request; no value is lost or added."""

from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated

import click
import pytest
from click.testing import CliRunner

from difftest import commands
from difftest.commands import bisect, compare, nightly, record, selftest
from difftest.jobs.ask.options import option, options
from difftest.jobs.ask.request import CASES, CampaignRequest, Request

REQUESTS = {
    "bisect": bisect.BisectRequest,
    "compare": compare.CompareRequest,
    "nightly": nightly.NightlyRequest,
    "record": record.RecordRequest,
    "run": CampaignRequest,
    "selftest": selftest.SelftestRequest,
}
LONG_RUNS = {"steps", "convergence"}
BESIDE = {
    "bisect": {"target"},
    "compare": {"noise", "names", "by", "script"},
    "nightly": {"day"} | LONG_RUNS,
    "record": LONG_RUNS,
    "run": LONG_RUNS,
}
"""The parameters that are not part of the request; those of long runs are in the description of the model.

`compare` takes some for recorded runs alone.
"""

DERIVED = {"nightly": {"began", "seed", "formats"}, "run": {"began"}}
"""The fields that a command sets itself."""


@dataclass(frozen=True, kw_only=True)
class Declaring:
    """Fields with an option of their name, one of another, two and none."""

    most_rows: Annotated[int, option(type=int, help="The most.")] = 7
    quiet: Annotated[bool, option("--no-words", is_flag=True, help="None.")] = False
    pair: Annotated[str, option("--left", help="One."), option("--right", "right", help="Two.")] = ""
    began: float = 0.0


def test_a_field_declares_its_option_with_its_own_name_and_default() -> None:
    command = options(Declaring)(click.command("declaring")(lambda **given: given))
    assert {parameter.name for parameter in command.params} == {"most_rows", "quiet", "pair", "right"}
    result = CliRunner().invoke(command, ["--no-words", "--right", "b"], standalone_mode=False)
    assert result.return_value == {"most_rows": 7, "quiet": True, "pair": "", "right": "b"}
    shown = CliRunner().invoke(command, ["--help"]).output
    assert "--most-rows INTEGER  The most.  [default: 7]" in shown
    without = options(Declaring, without={"pair"})(click.command("declaring")(lambda **given: given))
    assert {parameter.name for parameter in without.params} == {"most_rows", "quiet"}


@pytest.mark.parametrize("name", REQUESTS)
def test_every_parameter_of_a_command_is_a_field_of_its_request(name: str) -> None:
    own = REQUESTS[name]
    parameters = {parameter.name for parameter in commands.load(name).params} - BESIDE.get(name, set())
    required = {
        field.name for field in fields(own) if field.default is MISSING and field.default_factory is MISSING
    }
    assert parameters <= {field.name for field in fields(own)}
    assert required <= parameters | DERIVED.get(name, set())
    assert not parameters & DERIVED.get(name, set())


def test_a_request_cannot_be_changed() -> None:
    request = Request(out=Path("runs"), ledger=Path("ledger.toml"), fail_on=("new",), as_json=False)
    with pytest.raises(AttributeError):
        request.out = Path("elsewhere")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("cases", "budget", "most"), [(None, None, CASES), (None, 60.0, None), (3, None, 3), (3, 60.0, 3)]
)
def test_a_budget_alone_does_not_limit_the_number_of_cases(
    cases: int | None, budget: float | None, most: int | None
) -> None:
    request = CampaignRequest(
        out=Path("runs"),
        ledger=Path("ledger.toml"),
        fail_on=("new",),
        as_json=False,
        seed=0,
        max_world_size=2,
        twice_every=0,
        cases=cases,
        budget=budget,
    )
    assert request.most_cases == most
