"""`difftest compare` of two recorded runs: what it prints, its page, and its exit status."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click

from difftest.ground.errors import UsageError
from difftest.jobs.screen.output import print_json
from difftest.records.disk import replace_file
from difftest.runs.compare import compare
from difftest.runs.read import is_run
from difftest.runs.words import lines

Search: TypeAlias = Callable[[Mapping[str, str]], tuple[dict[str, Any], list[str]]]


def are_runs(folders: Sequence[Path]) -> bool:
    """Whether the folders hold recorded runs and no bundles; `UsageError` for some of both."""
    runs = [is_run(folder) for folder in folders]
    if any(runs) and not all(runs):
        other = folders[runs.index(False)]
        msg = f"{str(other)!r} holds no recorded run, but {str(folders[runs.index(True)])!r} does"
        raise UsageError(msg)
    return all(runs)


def compare_runs(  # noqa: PLR0913  what the command was given
    folders: Sequence[Path],
    out: Path | str | None,
    noise: Sequence[Path],
    names: Sequence[str],
    *,
    as_json: bool,
    search: Search | None = None,
) -> int:
    """Compares two runs and returns the status. `names` are `FIRST=SECOND`, `out` is the page's folder.

    `search` looks for the cause of a difference: its lines, and what JSON has of it.
    """
    if len(folders) != 2:  # noqa: PLR2004  a pair
        msg = f"{len(folders)} recorded runs are given; two are compared (further ones with --noise)"
        raise UsageError(msg)
    renamed = names_of(names)
    comparison = compare(folders[0], folders[1], noise=noise, names=renamed)
    if out:
        from reports.page.runs import FILENAME, render

        out = Path(out)
        out.mkdir(parents=True, exist_ok=True)
        replace_file(out / FILENAME, render(comparison))
    more, words = search(renamed) if search and comparison.status == 1 else ({}, [])
    if as_json:
        print_json(comparison.described() | {"status": comparison.status} | more)
    else:
        click.echo("\n".join([*lines(comparison), *words]))
        if out:
            click.echo(f"page: {Path(out) / FILENAME}")
    return comparison.status


def names_of(paths: Sequence[str]) -> dict[str, str]:
    """The names of the second run, or checkpoint, by those of the first."""
    names = {}
    for text in paths:
        first, equals, second = text.partition("=")
        if not equals or not first:
            msg = f"--name is {text!r}; it needs the form FIRST=SECOND, such as model.layers=transformer.h"
            raise UsageError(msg)
        names[first] = second
    return names
