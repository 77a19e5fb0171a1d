"""Issue drafts: a finding in the form of the tracker it belongs to. Nothing is ever posted: a person reads a draft and decides.

A tracker is a template, `reports/templates/issues/<tracker>.md.jinja`. What comes from runs and logs goes into code fences that are longer
than any within, or has what Markdown would act on taken out.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from difftest.cases.case import Case
from difftest.findings.ablate import BENIGN, DISAPPEARS
from difftest.findings.triage import STABLE_LEAST, Status, steady
from difftest.judge.blame import beneath
from difftest.judge.measured import Measurement
from difftest.judge.outcome import Symptom
from difftest.records.finding import Finding
from reports.draft import private
from reports.reproducer import spelling
from reports.reproducer.reproducer import tolerance

FOLDER, SUFFIX = "issues", ".md.jinja"
MOST_TITLE = 120
CODE = ("json", "python")
MOST_TEXT = 12_000
"""A longer log is cut in its middle."""

COMPILER = re.compile(r"\bF(?:\d{4} [^\]\n]*)? external/xla/")
"""The line with which XLA's own sources end a process, in torch_xla's way (`<time>: F external/...`) or glog's (`F0000 <time> ...`): what
they only warn of (`W external/xla/...`) is in the logs of other crashes too."""

REPLAYED = "replayed"
"""The evidence of a replay of the HLO on another XLA; begins with `diverges` where it is still wrong."""

SQUARE = ("single", "other", "other_single")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a draft says.

    `reproducer` is a script that showed the fault, with what it `said`, empty where none did. `collected` is what `collect_env` printed,
    `versions` are further pairs, and `artifacts` the files to attach.
    """

    finding: Finding
    case: Case
    measurement: Measurement | None = None
    reproducer: str = ""
    said: str = ""
    versions: tuple[tuple[str, str], ...] = ()
    collected: str = ""
    artifacts: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What fails, where, in a line that a tracker shows as it is."""
        finding = self.finding
        what = (
            spelling.brief(finding.divergence.detail).partition(": ")[2]
            if self.fails
            else f"{finding.divergence.check} of {finding.divergence.tensor}"
        )
        by = f" with {decided}" if (decided := finding.evidence.get("decided by")) else ""
        line = spelling.docstring(
            private.shared(
                f"[{finding.divergence.backend}] {finding.divergence.symptom} in {finding.divergence.stage}: {what}{by}"
            )
        )[:MOST_TITLE]
        return re.sub("[@#<>`]", " ", line)

    @property
    def reduced(self) -> bool:
        """Whether script and case are smaller than the case that was seen and measured."""
        return self.case.id != self.finding.case

    @property
    def fails(self) -> bool:
        """Whether the run did not end."""
        return self.finding.divergence.symptom not in {Symptom.MISMATCH, Symptom.NONFINITE}

    @property
    def verdict(self) -> str:
        """One sentence: who is at fault, and how far."""
        shown, ratio = self.finding.divergence, self.finding.divergence.ratio
        far = "" if ratio is None else f", {ratio:.3g} times the rounding noise away from float64"
        return f"{self.finding.blame}: {shown.backend} shows {shown.symptom} at step {shown.step}, {shown.stage}{far}."

    @property
    def stability(self) -> str:
        """How often it came back."""
        back, times = repeats(self.finding)
        return f"{back} of {times}"

    @property
    def square(self) -> Mapping[str, str]:
        """The other three of the 2 x 2, in words."""
        return {name: _plain(self.finding.evidence.get(name, "not run")) for name in SQUARE}

    @property
    def conditions(self) -> tuple[str, ...]:
        """What of the case is necessary."""
        return self.finding.conditions

    def when(self, answer: str) -> tuple[str, ...]:
        """What was changed in the case, one thing at a time, where the finding then does what `answer` says, with what there is to add."""
        told = (
            (name, said.removeprefix(answer).lstrip(",: "))
            for name, said in self.finding.ablations.items()
            if said.startswith(answer)
        )
        return tuple(f"{name} ({more})" if more else name for name, more in told)

    @property
    def benign(self) -> tuple[str, ...]:
        """The ablations that take a known benign cause away, and the finding with it."""
        return tuple(one for one in self.when(DISAPPEARS) if BENIGN in one)

    @property
    def further(self) -> tuple[tuple[str, str], ...]:
        """What else the evidence holds."""
        return tuple(
            (name, value) for name, value in self.finding.evidence.items() if name not in {*SQUARE, REPLAYED}
        )

    @property
    def replayed(self) -> str:
        """What a replay on another XLA showed; empty where there was none."""
        return self.finding.evidence.get(REPLAYED, "")

    @property
    def tolerance(self) -> str:
        """What the reproducer compares with."""
        return "" if self.measurement is None else f"{tolerance(self.measurement):.3g}"

    @property
    def device(self) -> str:
        """The kind of XLA's devices; empty where the run did not live to tell."""
        return self.finding.environment.get("device", "")

    @property
    def case_json(self) -> str:
        """The case, to be read."""
        return msgspec.json.format(self.case.to_json(), indent=2).decode()


def trackers() -> tuple[str, ...]:
    """The trackers that have a template, by name."""
    found = (
        name.removeprefix(f"{FOLDER}/")
        for name in _environment().list_templates()
        if name.startswith(f"{FOLDER}/")
    )
    return tuple(sorted(name.removesuffix(SUFFIX) for name in found if name.endswith(SUFFIX)))


def tracker(finding: Finding) -> str:
    """Whose fault the evidence says it is.

    The compiler's where it died inside of it, where its HLO is wrong without torch_xla too, or where another framework shows the same.
    """
    if finding.divergence.side == "torch":
        return "pytorch"
    dies = finding.divergence.symptom is Symptom.CRASH and any(
        COMPILER.search(told) for told in (finding.divergence.detail, finding.divergence.log)
    )
    persists = finding.evidence.get(REPLAYED, "").startswith("diverges")
    return "openxla" if dies or persists or beneath(finding.evidence) else "xla"


def refusal(finding: Finding) -> str | None:
    """Why a finding must not be drafted, or None: nobody should be asked to look for what comes and goes, or be told twice.

    What the ledger knows by a script alone nobody has reported yet.
    """
    if finding.upstream.startswith(("https://", "http://")):
        return f"it is reported already: {finding.upstream}"
    back, times = repeats(finding)
    if not times:
        return "it was never repeated in fresh processes"
    if not steady(finding):
        return f"it is unstable: it came back {back} of {times} times; a draft needs a share of at least {STABLE_LEAST:.2g}"
    if finding.status not in {"", Status.REPRODUCED}:
        return f"the last triage found it {finding.status}; a draft needs {Status.REPRODUCED}"
    return None


def repeats(finding: Finding) -> tuple[int, int]:
    """How often a finding came back of how many times: in its last triage, else when it was found."""
    return finding.returned if finding.returned[1] else finding.stable


def render(draft: Draft, tracker: str) -> str:
    """The draft in the form of `tracker`, one of `trackers()`."""
    text = _environment().get_template(f"{FOLDER}/{tracker}{SUFFIX}").render(it=draft)
    return text.strip() + "\n"


def fenced(text: str, language: str = "") -> str:
    """Text as a code block whose fence is longer than any run of backticks within; a very long text is cut in its middle.

    It is without what is private; code, which must run as it stands, only without folders of this machine.
    """
    text = private.places(text) if language in CODE else private.shared(text)
    if len(text) > MOST_TEXT:
        text = f"{text[: MOST_TEXT // 2]}\n... {len(text) - MOST_TEXT} characters left out ...\n{text[-MOST_TEXT // 2 :]}"
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _plain(text: object) -> str:
    """Text in one line without what is private or what Markdown or a tracker would act on: markup, tables, mentions, issues' numbers."""
    line = " ".join(private.shared(str(text)).split())
    return re.sub(
        r"[@#](?=\w)", lambda found: found[0] + "\u200b", re.sub(r"([\\`*_\[\]<>|])", r"\\\1", line)
    )


@cache
def _environment() -> Environment:
    environment = Environment(  # noqa: S701  it is no HTML: see `fenced` and `_plain`
        loader=PackageLoader("reports"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"fenced": fenced, "plain": _plain}
    return environment
