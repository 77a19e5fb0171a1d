"""`difftest blind`: in which part of the cases a wrong number would be called known, whatever it is."""

from pathlib import Path

import click

from difftest.commands import Group
from difftest.findings.blind import MOST, blind_shares
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.jobs.ask.options import (
    json_option,
    ledger_option,
    max_world_size_option,
    paths_option,
    seed_option,
)
from difftest.jobs.proof.selftest_cases import DrawnCases
from difftest.jobs.screen.output import print_json
from difftest.records.blind import lines

CASES = 250

GROUP = Group.ASK


@click.command("blind")
@seed_option
@click.option(
    "--cases", type=click.IntRange(min=1), default=CASES, show_default=True, help="How many cases to draw."
)
@paths_option("all whose cases run one by one")
@max_world_size_option
@ledger_option
@json_option
def command(  # noqa: PLR0913  click hands over what the decorators declare
    seed: int, cases: int, paths: tuple[str, ...], max_world_size: int, ledger: Path, *, as_json: bool
) -> int:
    """Print how much the known faults hide: nothing runs, and no framework is needed.

    A share says in which part of a backend's cases any mismatch of a check would be called known, whatever
    its size, tensor and nature. Exit status 1 where one is above 2 %.
    """
    from workers.backends import candidates

    backends = candidates()
    drawn = DrawnCases(seed=seed, paths=paths, max_world_size=max_world_size).cases(cases, paths)
    able = ((case, [name for name, one in backends.items() if not one.unsupported(case)]) for case in drawn)
    rows = blind_shares(read_ledger(ledger), able, utc_today()).rows()
    if as_json:
        print_json({"seed": seed, "cases": cases, "most": MOST, "blind": [row._asdict() for row in rows]})
    else:
        above = sum(row.share > MOST for row in rows)
        click.echo(f"{above} of {len(rows)} pairs of a backend and a check are blind in more than {MOST:.0%}")
        for line in lines(rows):
            click.echo(f"  {line}")
    return int(any(row.share > MOST for row in rows))
