"""`difftest blind`: in which part of the cases a wrong number would be called known, whatever it is."""

from typing import Annotated

import click

from difftest.commands import Group
from difftest.findings.blind import MOST, blind_shares
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.jobs.ask.case_source import MaxWorldSize, Seed
from difftest.jobs.ask.options import Json, KnownFaults, option, own_options, paths_option
from difftest.jobs.proof.selftest_cases import DrawnCases
from difftest.jobs.screen.output import print_json
from difftest.records.blind import lines

CASES = 250

GROUP = Group.ASK


@click.command("blind")
@own_options
def command(  # noqa: PLR0913  click hands over what the decorators declare
    seed: Seed,
    cases: Annotated[int, option(type=click.IntRange(min=1), default=CASES, help="How many cases to draw.")],
    paths: Annotated[tuple[str, ...], paths_option("all whose cases run one by one")],
    max_world_size: MaxWorldSize,
    ledger: KnownFaults,
    *,
    as_json: Json,
) -> int:
    """Print in how many cases the ledger of known faults would hide any fault. Nothing is run.

    A share is the part of a backend's cases in which the ledger calls every mismatch of a check known,
    whatever its size, tensor and nature. Exit status 1 if a share is above 2 %.
    """
    from workers.backends import all_backends

    backends = all_backends()
    drawn = DrawnCases(seed=seed, paths=paths, max_world_size=max_world_size).cases(cases, paths)
    able = (
        (case, [name for name, backend in backends.items() if not backend.unsupported(case)])
        for case in drawn
    )
    rows = blind_shares(read_ledger(ledger), able, utc_today()).rows()
    if as_json:
        print_json({"seed": seed, "cases": cases, "most": MOST, "blind": [row._asdict() for row in rows]})
    else:
        above = sum(row.share > MOST for row in rows)
        click.echo(f"{above} of {len(rows)} pairs of a backend and a check are blind in more than {MOST:.0%}")
        for line in lines(rows):
            click.echo(f"  {line}")
    return int(any(row.share > MOST for row in rows))
