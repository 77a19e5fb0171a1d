"""What an hour of one core gives: comparisons with a verdict, causes, and how soon the first one is there.

    python tests/benchmarks/core_time.py --verdicts before.json
    python tests/benchmarks/core_time.py --verdicts after.json --against before.json

All is real: the ranks' processes, the noise floor, the verdicts, the evidence for findings and a corpus on
disk, which is empty at first; only Ray is left out. One run goes on at a time, and the processor time of the
whole tree of processes counts, which other programs on the machine change little. With the defaults it takes
two minutes. `--fresh` adds ten: every comparison again in a fresh interpreter for every rank, one at a time,
without oracle or verdict. `--campaign 20` runs so many cases with their programs and twins, drawn as those of
`difftest run`, and prints the share of references. `--causes 10,60,240` goes on with cases and programs of
the seed in turn, until so many minutes of a core are used.
"""

import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

from benchmarks import _fresh  # noqa: E402  found on the path above
from benchmarks._measured_runs import CONFIRMATION, DRIVER, EVIDENCE, MeasuredRuns  # noqa: E402
from difftest.campaign.campaign import Campaign  # noqa: E402
from difftest.campaign.new_finding import KNOWN_IN_FULL  # noqa: E402
from difftest.campaign.recording import Progress  # noqa: E402
from difftest.campaign.run import run  # noqa: E402
from difftest.cases.case import Case  # noqa: E402
from difftest.cases.case_number import CaseNumber  # noqa: E402
from difftest.findings.causes import causes  # noqa: E402
from difftest.findings.ledger import read_ledger  # noqa: E402
from difftest.ground.clock import utc_today  # noqa: E402
from difftest.jobs.ask.request import REFERENCES_EVERY, TWICE_EVERY  # noqa: E402
from difftest.jobs.campaign.generated_cases import with_twins  # noqa: E402
from difftest.records.corpus import Corpus  # noqa: E402
from difftest.records.finding import Finding  # noqa: E402
from generators import paths, sequence  # noqa: E402
from generators.cases import case_at  # noqa: E402
from generators.explore import BLOCK  # noqa: E402
from workers import backends  # noqa: E402

HOUR, MINUTE = 3600.0, 60.0
PROGRAM = ("operators",)
PROGRAMS_BESIDE_A_CASE = 5
"""How many programs come after each case where causes are counted; all of them take about as long as it."""


@click.command()
@click.option("--seed", default=0, show_default=True)
@click.option("--first", default=70, show_default=True, help="The number of the first case.")
@click.option("--cases", default=9, show_default=True)
@click.option("--inputs", default=1, show_default=True, help="How many inputs each case has.")
@click.option("--programs", default=0, show_default=True, help="How many operator programs to measure.")
@click.option(
    "--campaign", default=0, show_default=True, help="How many cases of a whole campaign to measure."
)
@click.option("--causes", "minutes", default="", help="Count causes after so many core minutes: 10,60,240.")
@click.option("--fresh", is_flag=True, help="Compare with a fresh interpreter for every rank.")
@click.option("--verdicts", type=click.Path(path_type=Path), help="Write verdicts and blame to this file.")
@click.option(
    "--against", type=click.Path(path_type=Path, exists=True), help="Compare them with this file's."
)
def main(**options: Any) -> None:  # noqa: ANN401  click hands over what the decorators declare
    """Prints each figure as soon as it is there."""
    click.echo(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before, {utc_today()}")
    seed, measured, verdicts = options["seed"], Measured(), dict[str, list[str]]()
    if options["cases"]:
        numbers = range(options["first"], options["first"] + options["cases"])
        inputs = [CaseNumber(index, input=at) for index in numbers for at in range(options["inputs"])]
        drawing = -time.process_time()
        drawn = [(number.recorded, case_at(seed, number)) for number in inputs]
        drawing += time.process_time()
        list(measured.results(drawn))
        walked = numbers[-1] % BLOCK + 1  # drawing a case draws all of its block before it
        measured.seconds += drawing * len(numbers) / walked
        measured.show("cases")
        verdicts |= measured.verdicts
        if options["fresh"]:
            show_fresh(measured)
    if options["programs"]:
        programs = Measured()
        list(programs.results((n, case_at(seed, n, paths=PROGRAM)) for n in range(options["programs"])))
        programs.show("programs")
        verdicts |= {f"program {key}": shown for key, shown in programs.verdicts.items()}
    if options["campaign"]:
        whole = Measured(references=backends.references())
        order = sequence.numbers(paths.chosen(None), options["campaign"])
        list(whole.results((number.recorded, case_at(seed, number)) for number in order))
        whole.show("campaign")
        verdicts |= {f"campaign {key}": shown for key, shown in whole.verdicts.items()}
    if options["verdicts"]:
        options["verdicts"].write_text(json.dumps(verdicts, indent=1))
    if options["against"]:
        compare_verdicts(json.loads(options["against"].read_text()), verdicts)
    if options["minutes"]:
        count_causes(seed, options["inputs"], sorted(map(float, options["minutes"].split(","))))


@dataclass
class Measured:
    """A campaign over cases: its seconds of a core, and what it gave."""

    runs: MeasuredRuns = field(default_factory=MeasuredRuns)
    references: Mapping[str, backends.Backend] = field(default_factory=dict)
    """The backends that run twins, as often as in a campaign."""
    compared: list[tuple[Case, str]] = field(default_factory=list)
    verdicts: dict[str, list[str]] = field(default_factory=dict)
    decided: int = 0
    seconds: float = 0.0
    first: tuple[float, float] | None = None
    """The seconds of wall and of a core until a finding was recorded that shows a known fault."""

    def results(self, drawn: Iterable[tuple[int, Case]]) -> Iterator[Progress]:
        """Each case, recorded."""
        explanation = partial(read_ledger().entry, today=utc_today())
        with tempfile.TemporaryDirectory() as folder, self.runs.installed():
            corpus = Corpus(Path(folder))
            corpus.prepare()
            campaign = Campaign(
                name="benchmark",
                backends={**backends.candidates(), **self.references},
                references=frozenset(self.references),
                execute=self.runs.execute,
                execute_group=self.runs.execute_group,
                corpus=corpus,
                follows=backends.following(backends.candidates()),
                explanation=explanation,
                known_in_full=KNOWN_IN_FULL,
                twice_every=TWICE_EVERY if self.references else 0,
            )
            began, before = time.monotonic(), self.runs.used()
            twins = with_twins(campaign, drawn, REFERENCES_EVERY if self.references else 0)
            cases = ((number, self.runs.drawn(case)) for number, case in twins)
            for progress in run(campaign, cases):
                self.seconds = self.runs.used() - before
                self._count(progress)
                case = progress.result.case
                if not self.first and any(explanation(one.divergence, case) for one in progress.new):
                    self.first = time.monotonic() - began, self.seconds
                yield progress

    def _count(self, progress: Progress) -> None:
        result = progress.result
        findings = {finding.fingerprint: finding for finding in (*progress.new, *progress.recurring)}
        for name, comparison in result.comparisons.items():
            self.compared.append((result.case, name))
            self.decided += comparison.decides
            shown = [divergence.fingerprint for divergence in comparison.divergences[:1]]
            blames = [findings[fingerprint].blame for fingerprint in shown]
            self.verdicts[f"{result.index} {name}"] = [comparison.verdict, *shown, *blames]

    def show(self, what: str) -> None:
        """Prints how many comparisons an hour of a core gives, and what takes the time."""
        purposes = {name: sum(phases.values()) for name, phases in self.runs.seconds.items()}
        purposes[DRIVER] = self.seconds - sum(purposes.values())
        main_runs = sum(
            seconds for name, seconds in purposes.items() if name not in {DRIVER, EVIDENCE, CONFIRMATION}
        )
        each = self.seconds / max(1, self.decided)
        click.echo(
            f"\n{what}: {self.decided} comparisons with a verdict of {len(self.compared)}, "
            f"{self.seconds:.1f} core seconds: {each:.2f} each, {HOUR / each:.0f} per core hour; "
            f"{main_runs / self.seconds:.0%} of it in main runs"
        )
        if self.first:
            wall, core = self.first
            click.echo(f"the first correct finding after {wall:.1f} s, of which {core:.1f} s of a core")
        click.echo("| for | runs | core seconds | share | by phase or backend |\n|---|---|---|---|---|")
        for name, seconds in sorted(purposes.items(), key=lambda item: -item[1]):
            phases = sorted(self.runs.seconds.get(name, {}).items(), key=lambda item: -item[1])
            words = ", ".join(f"{phase} {used:.1f}" for phase, used in phases if used >= 0.05)
            share = f"{seconds / self.seconds:.0%}"
            click.echo(f"| {name} | {self.runs.runs[name]} | {seconds:.1f} | {share} | {words} |")


def show_fresh(measured: Measured) -> None:
    """Prints the ratio to fresh interpreters, which run the same comparisons, one at a time too."""
    ours, fresh = measured.seconds / len(measured.compared), 0.0
    for case, name in measured.compared:
        fresh += _fresh.processor_seconds_of(case, name) / len(measured.compared)
    click.echo(
        f"\na fresh interpreter for every rank takes {fresh:.2f} core seconds each: {fresh / ours:.1f} times"
    )


def compare_verdicts(before: dict[str, list[str]], after: dict[str, list[str]]) -> None:
    """Prints in how many comparisons verdict, first fingerprint and blame are equal, and every other one."""
    both = before.keys() | after.keys()
    other = {key: (before.get(key), after.get(key)) for key in both if before.get(key) != after.get(key)}
    click.echo(f"\nequal verdict, first fingerprint and blame in {len(both) - len(other)} of {len(both)}")
    for key, (one, two) in sorted(other.items()):
        click.echo(f"  {key}: {one} before, {two} now")


def count_causes(seed: int, inputs: int, minutes: Sequence[float]) -> None:
    """Prints the number of distinct causes after so many minutes of a core, and what that is an hour."""
    measured, findings, left = Measured(), list[Finding](), list(minutes)
    drawn = (one for number in itertools.count() for one in _with_programs(seed, number, inputs))
    for progress in measured.results(drawn):
        findings += progress.new
        while left and measured.seconds >= left[0] * MINUTE:
            there, limit = len(causes(findings)), left.pop(0)
            click.echo(f"{there} causes after {limit:g} core minutes: {there / limit * 60:.0f} per core hour")
        if not left:
            return


def _with_programs(seed: int, number: int, inputs: int) -> Iterator[tuple[int, Case]]:
    """The inputs of a case, and programs of the seed after it, with numbers of their own."""
    step = inputs + PROGRAMS_BESIDE_A_CASE
    for at in range(inputs):
        yield number * step + at, case_at(seed, CaseNumber(number, input=at))
    for at in range(PROGRAMS_BESIDE_A_CASE):
        program = number * PROGRAMS_BESIDE_A_CASE + at
        yield number * step + inputs + at, case_at(seed, program, paths=PROGRAM)


if __name__ == "__main__":
    main()
