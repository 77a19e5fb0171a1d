"""`difftest record`: one side's runs as a bundle, for a comparison elsewhere.

The machine needs neither Ray nor the other side's framework, and never meets the other side's machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click

from difftest.campaign.campaign import ORACLE
from difftest.cases.case import Case
from difftest.commands import Group
from difftest.ground.counted import counted
from difftest.ground.errors import InfrastructureError
from difftest.jobs.ask.capacity import check_runnable
from difftest.jobs.ask.case_source import Drawing
from difftest.jobs.ask.options import Backends, Json, Trust, option, options
from difftest.jobs.ask.own_model import take_model
from difftest.jobs.ask.request import CASES, LeastCompared, MostInconclusive
from difftest.jobs.campaign.bundle_recording import BundleRecording
from difftest.jobs.campaign.tally import in_words
from difftest.jobs.screen.activity import Working
from difftest.jobs.screen.output import print_json
from difftest.records.bundle import BundleWriter
from difftest.records.bundle_archive import SUFFIX, pack
from difftest.records.bundle_condensing import condense
from difftest.records.case_files import read_case
from difftest.records.completeness import LEAST_COMPARED, MOST_INCONCLUSIVE, described, lines, shortfalls


@dataclass(frozen=True, kw_only=True)
class RecordRequest(Drawing):
    """What the command was given: CASE files, or else the cases to generate."""

    files: tuple[Path, ...]
    cases: Annotated[
        int,
        option(
            type=click.IntRange(min=1),
            default=CASES,
            help="How many cases to generate if no CASE file is given.",
        ),
    ]
    backends: Annotated[
        tuple[str, ...],
        option(
            type=Backends(),
            required=True,
            help="The backends to run, all in this Python; a suffix such as @2.9 is only a name.",
        ),
    ]
    workers: Annotated[int, option(type=click.IntRange(min=1), default=1, help="How many runs at a time.")]
    out: Annotated[
        Path,
        option(
            type=click.Path(path_type=Path, file_okay=False),
            required=True,
            help="The folder of the bundle, new or empty. A name with .zip makes one compressed file.",
        ),
    ]
    least_compared: LeastCompared = LEAST_COMPARED
    most_inconclusive: MostInconclusive = MOST_INCONCLUSIVE
    trust: Trust
    as_json: Json

    @property
    def programs_too(self) -> int:
        """How many operator programs are recorded beside the cases."""
        return 0 if self.files else self.programs_beside(self.cases)

    @property
    def folder(self) -> Path:
        """The folder of the bundle, which is packed into the file `out` at the end if that is an archive."""
        return self.out.with_suffix("") if self.out.suffix == SUFFIX else self.out


GROUP = Group.FIND


@click.command("record")
@click.argument(
    "files", nargs=-1, metavar="[CASE...]", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@options(RecordRequest, without={"inputs", "programs"})
def command(**options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Run cases on some backends and the oracle, and keep everything for `difftest compare`."""
    from workers.backends import candidates

    options["model"] = take_model(options)
    request = RecordRequest(**options)
    backends = candidates(request.backends)
    who = [(name, backend.SIDE, backend.FRAMEWORK) for name, backend in backends.items()]
    recorder = BundleWriter(request.folder, who)
    cases, programs = len(request.files) or request.cases, request.programs_too
    click.echo(f"{in_words(cases, programs)} on {', '.join(backends)}; results in {request.out}", err=True)
    with Working("record", cases=cases + programs) as working:
        recording = BundleRecording(recorder, backends, request.workers, working)
        recording.record(_cases(request))
    if recording.trouble and not recording.cases:
        msg = f"no case could be recorded: {recording.trouble[0]}"
        raise InfrastructureError(msg)
    if request.folder != request.out:
        with Working("record: packing", counts=False):
            condense(request.folder, ORACLE)
            pack(request.folder, request.out)
    incomplete = shortfalls(recording.comparisons, request, must_agree=False)
    _print(request, recording, incomplete)
    if incomplete:
        raise InfrastructureError("; ".join(incomplete))
    return 0


def _cases(request: RecordRequest) -> Iterator[tuple[int, Case]]:
    if request.files:
        return (
            (index, check_runnable(read_case(file), trust=request.trust))
            for index, file in enumerate(request.files)
        )
    return ((index, request.case(index)) for index in request.numbers(request.cases))


def _print(request: RecordRequest, recording: BundleRecording, incomplete: list[str]) -> None:
    """Prints what the bundle holds, and what it lacks."""
    cases, runs = recording.cases, recording.runs
    if request.as_json:
        counts = {"cases": cases, "runs": runs, "comparisons": described(recording.comparisons)}
        trouble = {"trouble": recording.trouble, "incomplete": incomplete}
        print_json(counts | trouble | {"out": str(request.out)})
        return
    click.echo(f"{counted(cases, 'case')}, {counted(runs, 'run')} recorded in {request.out}")
    for line in lines(recording.comparisons):
        click.echo(f"  {line}")
    for problem in recording.trouble:
        click.echo(f"  infrastructure: {problem}")
