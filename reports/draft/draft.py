"""Issue drafts: a finding in the form of the tracker it belongs to.

Nothing is ever posted: a person reads a draft and decides.

A tracker is a template, `reports/templates/issues/<tracker>.md.jinja`. Text from runs and logs goes through
`reports.draft.markup`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from difftest.cases.case import Case
from difftest.findings import titles
from difftest.findings.ablate import BENIGN, CHANGES, DISAPPEARS, STAYS
from difftest.judge.measured import Measurement
from difftest.judge.outcome import Symptom
from difftest.printable import printable
from difftest.records.evidence import REPLAYED, TWO_BY_TWO, UNDECIDED, answer, label
from difftest.records.finding import Finding
from reports.draft import private, releases
from reports.draft.markup import fenced, plain
from reports.draft.tracker import repeats
from reports.reproducer.reproducer import tolerance

FOLDER, SUFFIX = "issues", ".md.jinja"
MOST_TITLE = 250
"""What a tracker takes; titles are shorter, except of messages that are one long clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The content of a draft, which the templates read.

    `reproducer` is a script that shows the fault, and `output` what it printed; both empty where there is
    none. `arguments` are those with which the script shows this fault alone. `ran_here` says that difftest
    itself wrote and ran that script, with that output. `collected` is the output of `collect_env`, `versions`
    are further pairs of name and version, and `artifacts` the files to attach. `called` is what users call
    each backend, and `reason` that of the ledger's entry about the finding, empty where there is none.
    """

    finding: Finding
    case: Case
    measurement: Measurement | None = None
    reproducer: str = ""
    arguments: tuple[str, ...] = ()
    output: str = ""
    ran_here: bool = False
    versions: tuple[tuple[str, str], ...] = ()
    collected: str = ""
    artifacts: tuple[str, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    @property
    def title(self) -> str:
        """What happens, in one line without characters that a tracker acts on."""
        line = private.shared(titles.title(self.finding, self.called, self.reason))
        words = " ".join(re.sub("[@#<>`]", " ", line).split())
        return words if len(words) <= MOST_TITLE else words[:MOST_TITLE].rpartition(" ")[0]

    @property
    def reduced(self) -> bool:
        """Whether script and case are smaller than the case that showed the finding and was measured."""
        return self.case.id != self.finding.case

    @property
    def fails(self) -> bool:
        """Whether the run failed, instead of giving wrong numbers."""
        return self.finding.divergence.symptom not in {Symptom.MISMATCH, Symptom.NONFINITE, Symptom.UNDEFINED}

    @property
    def verdict(self) -> str:
        """One sentence: what is at fault, and how large the error is."""
        shown, ratio = self.finding.divergence, self.finding.divergence.ratio
        far = "" if ratio is None else f", {ratio:.3g} x the rounding noise away from the float64 reference"
        where = f"at step {shown.step}, {shown.stage}{far}"
        return f"{self.finding.blame}: {shown.backend} shows {shown.symptom} {where}."

    @property
    def stability(self) -> str:
        """How often it came back, as `k of n`."""
        back, times = repeats(self.finding)
        return f"{back} of {times}"

    @property
    def two_by_two(self) -> Mapping[str, str]:
        """The other three results of the 2 x 2, by their names in the evidence."""
        return {name: plain(answer(self.finding.evidence.get(name, "not run"))) for name in TWO_BY_TWO}

    @property
    def answers(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Every kind of answer that an ablation gave, with what was changed in those."""
        kinds = ((answer(kind), self.when(kind)) for kind in (DISAPPEARS, STAYS, CHANGES, UNDECIDED))
        return tuple((kind, changes) for kind, changes in kinds if changes)

    def when(self, kind: str) -> tuple[str, ...]:
        """What the ablations with this `kind` of answer changed, with the rest of the answer in brackets."""
        rests = (
            (name, text.removeprefix(kind).lstrip(",: "))
            for name, text in self.finding.ablations.items()
            if text.startswith(kind)
        )
        return tuple(f"{name} ({rest})" if rest else name for name, rest in rests)

    @property
    def benign(self) -> tuple[str, ...]:
        """The ablations that remove a known benign cause, and the finding with it."""
        return tuple(change for change in self.when(DISAPPEARS) if BENIGN in change)

    @property
    def further(self) -> tuple[tuple[str, str], ...]:
        """The other evidence, as pairs of label and text."""
        rest = {*self.finding.evidence} - {*TWO_BY_TWO, REPLAYED}
        return tuple((label(name), text) for name, text in self.finding.evidence.items() if name in rest)

    @property
    def releases(self) -> str:
        """The releases of the package in which it was tried, and the newest one where that is missing."""
        return releases.described(self.finding)

    @property
    def replayed(self) -> str:
        """What a replay on another XLA showed; empty where there was none."""
        return self.finding.evidence.get(REPLAYED, "")

    @property
    def tolerance(self) -> str:
        """The reproducer's tolerance."""
        return "" if self.measurement is None else f"{tolerance(self.measurement):.3g}"

    @property
    def device(self) -> str:
        """The kind of XLA's devices; empty where the run ended before it could report it."""
        return self.finding.environment.get("device", "")

    @property
    def case_json(self) -> str:
        """The case as indented JSON."""
        return msgspec.json.format(self.case.to_json(), indent=2).decode()


def trackers() -> tuple[str, ...]:
    """The trackers that have a template, by name."""
    names = (
        name.removeprefix(f"{FOLDER}/")
        for name in _environment().list_templates()
        if name.startswith(f"{FOLDER}/")
    )
    return tuple(sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)))


def render(draft: Draft, tracker: str) -> str:
    """The draft in the form of `tracker`, one of `trackers()`."""
    text = _environment().get_template(f"{FOLDER}/{tracker}{SUFFIX}").render(it=draft)
    return printable(text.strip()) + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701  it is no HTML: see `reports.draft.markup`
        loader=PackageLoader("reports"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"fenced": fenced, "plain": plain}
    return environment
