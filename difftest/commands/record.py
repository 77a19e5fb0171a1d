"""`difftest record`: one side's runs as a bundle, on a machine that never meets the other's, without Ray or the other framework."""

import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from difftest.campaign.campaign import ORACLE, BackendTraits, Campaign
from difftest.campaign.case_run import CaseResult
from difftest.campaign.run import run as run_campaign
from difftest.cases.case import Case
from difftest.commands.service.options import Backends, Names, json_option
from difftest.commands.service.output import print_json
from difftest.commands.service.ranks import check_ranks, check_world_size
from difftest.errors import InfrastructureError
from difftest.judge.outcome import Outcome
from difftest.records.bundle import EVIDENCE, Recorder, Who
from difftest.records.case_files import read_case
from difftest.records.corpus import Corpus

CASES = 40


@click.command("record")
@click.argument(
    "files", nargs=-1, metavar="[CASE...]", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Of generated cases, without CASE files.",
)
@click.option(
    "--cases",
    type=click.IntRange(min=1),
    default=CASES,
    show_default=True,
    help="How many cases to generate.",
)
@click.option("--paths", type=Names("generators.paths"), help="Only these parallelism paths.  [default: all]")
@click.option(
    "--backends",
    type=Backends(),
    required=True,
    help="Of this machine, all in this Python; `@2.9` is only a name.",
)
@click.option(
    "--max-world-size", type=int, default=8, show_default=True, help="The most ranks a case may have."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many cases run at a time.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="The bundle: a new folder."
)
@json_option
def command(**options: Any) -> int:  # noqa: ANN401  click hands over what the decorators declare
    """Run cases on some backends and the oracle, and keep everything for `difftest compare`."""
    from workers.backends import candidates

    check_world_size(options["max_world_size"])
    backends: Mapping[str, BackendTraits] = candidates(options["backends"])
    workers = options["workers"]
    recording = _Recording(Recorder(options["out"]), backends, workers)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder))
        corpus.prepare()
        campaign = Campaign(
            name="record", backends=backends, execute=recording.execute, corpus=corpus, workers=workers
        )
        for progress in run_campaign(campaign, recording.numbered(_cases(options))):
            recording.came_to(progress.result)
    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(recording.unsharded, recording.ran))
    _tell(options, recording)
    return 0


class _Recording:
    """Runs in child processes of this one, `workers` at a time whoever asks, and keeps what came of each."""

    def __init__(self, recorder: Recorder, backends: Mapping[str, BackendTraits], workers: int) -> None:
        self._free, self._lock = threading.BoundedSemaphore(workers), threading.Lock()
        self._recorder, self._backends = recorder, backends
        self._indices: dict[str, int] = {}
        self._executed: set[tuple[str, str]] = set()
        self.ran: list[tuple[Case, str]] = []
        self.trouble: list[str] = []
        self.cases = self.runs = 0

    def numbered(self, cases: Iterator[tuple[int, Case]]) -> Iterator[tuple[int, Case]]:
        """The cases, remembered as the campaign's own."""
        for index, case in cases:
            self._indices[case.id] = index
            yield index, case

    def came_to(self, examined: CaseResult) -> None:
        """A case that ran on the backends which support it, but for what infrastructure spoiled."""
        if examined.trouble:
            self.trouble.append(f"case {examined.case.id}: {examined.trouble}")
        if examined.runs:
            self.cases += 1
            self.ran += [(examined.case, name) for name in examined.runs if name != ORACLE]

    def execute(self, case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
        """One run, kept before it is compared with anything."""
        from workers.isolate import sandbox

        with self._free:
            outcome = sandbox.run(case, backend, options=options)
        self._recorder.keep(self._indices.get(case.id, EVIDENCE), case, self._who(backend), options, outcome)
        with self._lock:
            self._executed.add((case.id, backend))
            self.runs += 1
        return outcome

    def _who(self, backend: str) -> Who:
        known = self._backends.get(backend)
        return (backend, known.SIDE, known.FRAMEWORK) if known else (ORACLE, ORACLE, "")

    def unsharded(self, ran: tuple[Case, str]) -> None:
        """The same on one device, which the other machine's findings are blamed by; once a case and backend."""
        single, backend = ran[0].unsharded(), ran[1]
        for name in (ORACLE, backend):
            supported = name == ORACLE or not self._backends[name].unsupported(single)
            if supported and (single.id, name) not in self._executed:
                try:
                    self.execute(single, name, {})
                except InfrastructureError as error:
                    self.trouble.append(f"case {single.id} on {name}: {error}")


def _cases(options: Mapping[str, Any]) -> Iterator[tuple[int, Case]]:
    if options["files"]:
        return ((index, check_ranks(read_case(file))) for index, file in enumerate(options["files"]))
    from generators.cases import case_at

    known = {"paths": options["paths"], "max_world_size": options["max_world_size"]}
    return ((index, case_at(options["seed"], index, **known)) for index in range(options["cases"]))


def _tell(options: Mapping[str, Any], recording: _Recording) -> None:
    """What the bundle holds, and what it lacks; `InfrastructureError` when no case could be recorded."""
    if recording.trouble and not recording.cases:
        msg = f"no case could be recorded: {recording.trouble[0]}"
        raise InfrastructureError(msg)
    if options["as_json"]:
        print_json(
            {
                "cases": recording.cases,
                "runs": recording.runs,
                "trouble": recording.trouble,
                "out": str(options["out"]),
            }
        )
        return
    click.echo(f"{recording.cases} cases, {recording.runs} runs recorded in {options['out']}")
    for problem in recording.trouble:
        click.echo(f"  infrastructure: {problem}")
