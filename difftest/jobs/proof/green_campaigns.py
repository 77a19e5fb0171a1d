"""Campaigns with a fault after which a green result would prove nothing, each run down to its exit status.

A campaign is a small one of `difftest run`: one case, run twice, on one backend of each side.
"""

import contextlib
import dataclasses
import io
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from difftest.campaign.campaign import ORACLE, Campaign, Execute
from difftest.campaign.memo import Memo
from difftest.cases.case import Case
from difftest.findings.ledger import LEDGER_FILE, Ledger
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.ground.own_folder import own_folder
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign.cluster import Cluster
from difftest.jobs.campaign.generated_cases import define
from difftest.jobs.campaign.run import run_campaign
from difftest.jobs.campaign.storage import Output
from difftest.jobs.proof.green_summary import CONTROL, CampaignEnding
from difftest.judge.outcome import Outcome
from difftest.records.corpus import Corpus

if TYPE_CHECKING:
    from workers.faults import VacuousFault

SEED, PATH, RANKS = 439, "data_parallel", 2
"""Their first case has linear layers and an activation, three steps, and no fault of a framework."""


def chosen_vacuous(names: str) -> list["VacuousFault"]:
    """The vacuous faults named in the comma-separated `names`, or all; `UsageError` for an unknown name."""
    from workers.faults import vacuous_faults

    faults = vacuous_faults()
    requested = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in requested if name not in faults]:
        msg = f"unknown defect {unknown[0]!r}; with --green allowed: {', '.join(sorted(faults))}"
        raise UsageError(msg)
    return [faults[name] for name in requested or faults]


@dataclass(frozen=True, kw_only=True)
class GreenCampaigns:
    """What the campaigns share. `correct` executes without a fault, `execute` with one."""

    cluster: Cluster
    execute: Execute
    correct: Memo

    def endings(self, faults: list["VacuousFault"]) -> Iterator[CampaignEnding]:
        """How the campaign without a fault ends, and then those with each of `faults`."""
        yield self._ending(CONTROL, "nothing: the campaign without a fault", (), lambda _side: False)
        for fault in faults:
            yield self._ending(fault.name, fault.about, fault.sides, fault.planted_into)

    def _ending(
        self, name: str, about: str, sides: tuple[str, ...], spoiled: Callable[[str], bool]
    ) -> CampaignEnding:
        began = time.monotonic()
        with own_folder("green") as folder:
            output = Output(folder, str(folder))  # no campaign of the user's, so it is not remembered
            status, reason = self._status(output, name, spoiled)
            said = _is_said(output, status)
        return CampaignEnding(
            fault=name,
            about=about,
            sides=sides,
            status=status,
            reason=reason,
            said=said,
            seconds=time.monotonic() - began,
        )

    def _status(self, output: Output, name: str, spoiled: Callable[[str], bool]) -> tuple[int, str]:
        """The exit status of `difftest run`, with its reason: the error's, or the first finding's."""
        silent = io.StringIO()

        @contextmanager
        def joined(request: CampaignRequest, corpus: Corpus, _ledger: Ledger) -> Iterator[Campaign]:
            backends = {backend: self.cluster.backends[backend] for backend in request.backends}
            campaign = self.cluster.campaign(
                define(request).name, corpus, backends=backends, twice_every=request.twice_every
            )
            yield dataclasses.replace(campaign, execute=self._execute(name, spoiled), execute_group=None)

        try:
            with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
                status = run_campaign(self._request(output), output, joined)
        except (UsageError, InfrastructureError) as error:
            return error.status, str(error)
        findings = list(output.corpus.findings())
        return status, "; ".join(f"{finding.blame}: {finding.divergence.detail}" for finding in findings[:1])

    def _execute(self, name: str, spoiled: Callable[[str], bool]) -> Execute:
        from workers.faults import VARIABLE

        def execute(case: Case, backend: str, options: Mapping[str, str]) -> Outcome:
            side = ORACLE if backend == ORACLE else self.cluster.backends[backend].SIDE
            if spoiled(side):
                return self.execute(case, backend, {**options, VARIABLE: name})
            return self.correct(case, backend, options)

        return execute

    def _request(self, output: Output) -> CampaignRequest:
        standing = (
            name for name, backend in self.cluster.backends.items() if backend.PROFILE.stands_for_side
        )
        return CampaignRequest(
            out=output.folder,
            ledger=LEDGER_FILE,
            fail_on=("new",),
            as_json=False,
            seed=SEED,
            cases=1,
            paths=(PATH,),
            backends=tuple(standing),
            max_world_size=RANKS,
            workers=self.cluster.workers,
            twice_every=1,
        )


def _is_said(output: Output, status: int) -> bool:
    """Whether a campaign's page begins with what it ended in, and names its findings."""
    from reports.formats import html, summary

    page = (output.folder / html.FILENAME).read_text()
    opening = msgspec.json.decode((output.folder / summary.FILENAME).read_bytes())["opening"]
    named = all(finding.fingerprint in page for finding in output.corpus.findings())
    return named and bool(opening) == (status == InfrastructureError.status) and opening in page
