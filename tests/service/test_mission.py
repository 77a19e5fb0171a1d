"""The faults that difftest was made for: the case in docs/mission.toml shows each one, with its blame."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from installed_packages import skip_without

from difftest.campaign.campaign import Campaign
from difftest.campaign.run import run
from difftest.cases.case import Case
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
MOST_CASES = 200
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
    """One row of `docs/mission.toml`, which explains the fields."""

    upstream: str
    defect: str
    case: int
    fingerprint: str
    blame: str
    minutes: float | None = None
    decided_by: str = ""
    path: str = ""


FAULTS = msgspec.convert(tomllib.loads(MISSION.read_text())["fault"], list[Fault])


def finding_of(fault: Fault, folder: Path) -> Finding | None:
    """Run a campaign of the fault's case only and return the finding on the fault's backend."""
    from workers.backends import candidates  # noqa: PLC0415
    from workers.faults import VARIABLE  # noqa: PLC0415

    backend = fault.fingerprint.partition("-")[0]

    def execute(case: Case, name: str, options: Mapping[str, str]) -> Outcome:
        planted = {VARIABLE: fault.defect} if fault.defect and name == backend else {}
        return sandbox.run(case, name, options={**options, **planted})

    corpus = Corpus(folder)
    corpus.prepare()
    campaign = Campaign(
        name="mission", backends=candidates((backend, OTHER_SIDE)), execute=execute, corpus=corpus
    )
    case = case_at(0, fault.case - 1, paths=(fault.path,) if fault.path else None)
    (progress,) = run(campaign, [(fault.case - 1, case)])
    return next((finding for finding in progress.new if finding.divergence.backend == backend), None)


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
