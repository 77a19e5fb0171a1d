"""What difftest was made for, and faults of public reports: docs/mission.toml has cases that show them."""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest
from in_part import in_part
from installed_packages import skip_without

from difftest.campaign.campaign import Campaign, Execute
from difftest.campaign.run import run
from difftest.cases.case import Case
from difftest.findings.faults import SCRIPTS
from difftest.findings.ledger import read_ledger
from difftest.ground.clock import utc_today
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus
from difftest.records.finding import Finding
from generators.cases import case_at
from workers.isolate import sandbox

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xla,
    skip_without("torch_xla"),
]

MISSION = Path(__file__).parents[2] / "docs" / "mission.toml"
MOST_CASES, INPUT_RANKS = 200, 4
ISSUES = ("#8396", "#8334", "#9735", "#8812", "#8534", "#9472")
OTHER_SIDE = "torch_dtensor"

TAKE_MINUTES = ("flash_ids_not_sharded", "flash_backward_ids_not_sharded", "flash_keys_cut_like_queries")
"""The nightly job runs these; `tests/workers/test_flash_attention_runs.py` plants them in a small case."""

SHOWN_ELSEWHERE = (
    "xla_dtensor-completion-exception-5dafd4b6",
    "xla_tp-completion-exception-29b0ec2c",
    "jax_unguarded",
)
"""The nightly job runs these too: `test_service.py` finds two; `jax_twice` is of the third's check."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[fault]]` of `docs/mission.toml`, which explains the fields."""

    upstream: str
    defect: str
    case: int
    fingerprint: str
    blame: str
    minutes: float | None = None
    decided_by: str = ""
    path: str = ""


class PublicInput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[input]]` of `docs/mission.toml`, which explains the fields."""

    title: str
    path: str
    cases: tuple[int, ...]
    fingerprints: tuple[str, ...]
    blame: str
    known: str
    silent: bool = False
    decided_by: str = ""


TABLE = tomllib.loads(MISSION.read_text())
FAULTS = msgspec.convert(TABLE["fault"], list[Fault])
INPUTS = {
    f"{one.path}-{case}": (one, case)
    for one in msgspec.convert(TABLE["input"], list[PublicInput])
    for case in one.cases
}


def run_here(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
    """The outcome of a run in processes of its own."""
    return sandbox.run(case, name, options=options)


def finding_of(fault: Fault, folder: Path) -> Finding | None:
    """Run a campaign of the fault's case only and return the finding on the fault's backend."""
    from workers.faults import VARIABLE  # noqa: PLC0415

    backend = fault.fingerprint.partition("-")[0]

    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        planted = {VARIABLE: fault.defect} if fault.defect and name == backend else {}
        return sandbox.run(case, name, options={**options, **planted})

    case = case_at(0, fault.case - 1, paths=(fault.path,) if fault.path else None)
    new = new_findings(a_campaign(folder, (backend, OTHER_SIDE), execute), fault.case, case)
    return next((finding for finding in new if finding.divergence.backend == backend), None)


def a_campaign(folder: Path, backends: tuple[str, ...], execute: Execute = run_here) -> Campaign:
    """A campaign on these backends, with an empty corpus in the folder."""
    from workers.backends import candidates  # noqa: PLC0415

    corpus = Corpus(folder)
    corpus.prepare()
    return Campaign(name="mission", backends=candidates(backends), execute=execute, corpus=corpus)


def new_findings(campaign: Campaign, number: int, case: Case) -> Sequence[Finding]:
    """What the case with this number, 1 being the first, shows."""
    (progress,) = run(campaign, [(number - 1, case)])
    return progress.new


def test_the_table_has_every_fault() -> None:
    assert all(any(issue in fault.upstream for fault in FAULTS) for issue in ISSUES)
    assert max(fault.case for fault in FAULTS) <= MOST_CASES


NIGHTLY = {*TAKE_MINUTES, *SHOWN_ELSEWHERE}
PARAMETERS = [
    pytest.param(
        fault,
        id=fault.defect or fault.fingerprint,
        marks=[pytest.mark.nightly] if {fault.defect, fault.fingerprint} & NIGHTLY else [],
    )
    for fault in FAULTS
]


@pytest.mark.parametrize("fault", PARAMETERS)
def test_the_generated_case_in_the_table_shows_the_fault(fault: Fault, tmp_path: Path) -> None:
    finding = finding_of(fault, tmp_path)
    assert finding is not None
    assert (finding.fingerprint, finding.blame) == (fault.fingerprint, fault.blame)
    if fault.decided_by:
        assert finding.evidence["decided_by"] == fault.decided_by


@pytest.mark.parametrize("name", in_part(INPUTS, each=10))
def test_a_generated_case_shows_the_fault_of_a_public_input(name: str, tmp_path: Path) -> None:
    public, number = INPUTS[name]
    ledger, today = read_ledger(), utc_today()
    campaign = a_campaign(tmp_path, (public.fingerprints[0].partition("-")[0],))
    campaign = dataclasses.replace(campaign, explanation=partial(ledger.entry, today=today))
    case = case_at(0, number - 1, paths=(public.path,), max_world_size=INPUT_RANKS)
    (finding,) = new_findings(campaign, number, case)
    entry = ledger.entry_of(finding, case, today)
    assert finding.fingerprint in public.fingerprints
    assert finding.blame == public.blame
    assert entry is not None
    assert entry.upstream == f"{SCRIPTS}{public.known}.py"
    assert finding.evidence.get("decided_by", "") == public.decided_by
