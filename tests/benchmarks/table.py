"""The table of speed targets: what each figure is on this machine, and whether its target is met.

    python tests/benchmarks/table.py --only searching

A figure is a ratio within one run, or processor time, so that a busy machine changes it little. It takes 20
minutes.
"""

import datetime as dt
import importlib
import os
import sys
from pathlib import Path

import click

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE.parent / "support")]

NAMES = sorted(file.stem for file in (HERE / "targets").glob("[a-z]*.py"))


@click.command()
@click.option("--only", type=click.Choice(NAMES), multiple=True, help="Measure this alone; may be repeated.")
def main(only: tuple[str, ...]) -> None:
    """Prints each figure as soon as it is there."""
    today = dt.datetime.now(tz=dt.UTC).date()
    click.echo(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before, {today}\n")
    click.echo("| figure | measured | at least | met |\n|---|---|---|---|")
    for name in only or NAMES:
        for figure in importlib.import_module(f"benchmarks.targets.{name}").figures():
            met = "yes" if figure.is_met else "no"
            click.echo(f"| {figure.name} | {figure.measured:.3g} | {figure.target:g} | {met} |")


if __name__ == "__main__":
    main()
