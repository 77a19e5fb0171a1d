"""Campaigns on made-up machines after which a green result would prove nothing, and how they end.

A campaign has `CASES` cases of two paths on two backends of each side, unless a fault says otherwise. It runs
by the code of `difftest run` down to exit status and reports.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from click.testing import CliRunner
from machines import Machine, a_campaign, backend
from samples import Floats, Key, a_case, a_failure, candidate, oracle, tensor_parallel_case

from difftest import cli
from difftest.campaign.campaign import Campaign
from difftest.cases.case import Case, Training
from difftest.findings.ledger import Ledger
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.ask.request import CampaignRequest
from difftest.jobs.campaign import generated_cases, run
from difftest.jobs.campaign.generated_cases import define
from difftest.judge.events import Events
from difftest.judge.outcome import Outcome, Sharded, Trace
from difftest.records.corpus import Corpus
from reports import write

CASES = 12
SIDES = {"ddp": "torch", "fsdp": "torch", "spmd": "xla", "tp": "xla"}
Answer: TypeAlias = Callable[[Case, str], Outcome]


def case_of(index: int) -> Case:
    """A case of two steps, of one path and of another by turns."""
    training = Training(steps=2)
    return (
        tensor_parallel_case(seed=index, training=training)
        if index % 2
        else a_case(seed=index, training=training)
    )


def right(case: Case, name: str) -> Outcome:
    """What a right machine answers: rounded numbers, which are some noise off."""
    if name == "oracle":
        return oracle(case)
    return rounded(case)


def rounded(case: Case) -> Trace:
    """A right candidate's trace, whose tensors are off by about the rounding noise."""
    noise = iter(np.random.default_rng(case.seed).choice((-1.0, 1.0), 1000))

    def spoil(_step: int, _key: Key, value: Floats) -> Floats:
        off: float = 1e-7 * next(noise) * float(np.sqrt(np.mean(value**2)))
        return value + off

    trace = candidate(case, spoil)
    return dataclasses.replace(trace, events=Events(device="cpu"))


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault: what machines answer, which cases there are, and what a backend cannot express.

    `words` must be in the error and on the page. Every campaign must end in one of `statuses`.
    """

    words: str
    answer: Answer = right
    cases: tuple[Case, ...] = ()
    arguments: tuple[str, ...] = ()
    unsupported: Mapping[str, Callable[[Case], str | None]] = field(default_factory=dict)
    sides: Mapping[str, str] = field(default_factory=lambda: SIDES)
    ledger: str = ""
    status: int = 3


class Answering(Machine):
    """A machine that answers as a fault says."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    def answer(self, case: Case, backend: str) -> Outcome:
        """The fault's answer; the error that it is."""
        outcome = self._answer(case, backend)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a campaign ended: status, error, standard output, the summary, and where its reports are."""

    status: int
    error: str
    printed: str
    summary: dict[str, Any]
    out: Path

    @property
    def page(self) -> str:
        """The text of its page."""
        return (self.out / "report.html").read_text()

    @property
    def markdown(self) -> str:
        """The text of its summary in Markdown."""
        return (self.out / "summary.md").read_text()


def ended(
    out: Path,
    fault: Fault,
    monkeypatch: Any,  # noqa: ANN401  pytest's
    formats: Sequence[str] = write.DEFAULT_FORMATS,
) -> Ended:
    """Runs the campaign of a fault, which writes its reports in these formats."""
    cases = fault.cases or tuple(case_of(index) for index in range(CASES))
    there = {name: backend(side) for name, side in fault.sides.items()}
    for name, unsupported in fault.unsupported.items():
        there[name].unsupported = unsupported
    machine = Answering(fault.answer)

    @contextmanager
    def joined(request: CampaignRequest, corpus: Corpus, _ledger: Ledger) -> Iterator[Campaign]:
        campaign = a_campaign(corpus.root, machine, there, name=define(request).name)
        yield dataclasses.replace(campaign, twice_every=4)

    monkeypatch.setattr(write, "DEFAULT_FORMATS", formats)
    monkeypatch.setattr(run, "campaign_on_cluster", joined)
    monkeypatch.setattr(generated_cases, "generated_cases", lambda *_: (one for one in enumerate(cases)))
    arguments = list(fault.arguments)
    if fault.ledger:
        (file := out.with_suffix(".toml")).write_text(fault.ledger)
        arguments += ["--known", str(file)]
    words = ["run", "--cases", str(len(cases)), "--out", str(out), *arguments]
    done = CliRunner().invoke(cli.difftest, words, standalone_mode=False)
    error = done.exception
    assert error is None or isinstance(error, InfrastructureError | UsageError), error
    return Ended(
        status=error.status if error else int(done.return_value or 0),
        error=str(error or ""),
        printed=done.stdout,
        summary=json.loads((out / "summary.json").read_text()),
        out=out,
    )


def with_tensors(trace: Trace, change: Callable[[str, Sharded], Sharded | None]) -> Trace:
    """The trace with every tensor changed by its name, or left out."""
    steps = tuple(
        {key: made for key, tensor in step.items() if (made := change(key[1], tensor)) is not None}
        for step in trace.steps
    )
    return dataclasses.replace(trace, steps=steps)


def with_noise(trace: Trace, factor: float) -> Trace:
    """An oracle's trace with another rounding noise."""
    noise = tuple(
        {
            key: dataclasses.replace(one, pieces={rank: factor * piece for rank, piece in one.pieces.items()})
            for key, one in step.items()
        }
        for step in trace.noise
    )
    return dataclasses.replace(trace, noise=noise)


def failing(message: str, **changes: Any) -> Answer:  # noqa: ANN401  fields of a failure
    """A machine on which the backends of XLA fail."""
    return lambda case, name: (
        a_failure(message=message, **changes) if SIDES.get(name) == "xla" else right(case, name)
    )
