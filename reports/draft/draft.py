"""Issue drafts: what a tracker's form asks for of a finding (`reports.draft.rendering` writes the form).

Nothing is ever posted: a person reads a draft and decides. Text from runs and logs goes through
`reports.draft.markup`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import msgspec

from difftest.cases.case import Case
from difftest.findings import titles
from difftest.findings.ablate import BENIGN, CHANGES, DISAPPEARS, STAYS
from difftest.ground import installed, plugins
from difftest.ground.counted import counted
from difftest.judge.divergence import Divergence
from difftest.judge.facts import Facts, KindsFacts, PropertyFacts, RemarkFacts
from difftest.judge.fingerprint import FAILURES
from difftest.judge.measured import Measurement
from difftest.judge.noise import FLOORS_MOST
from difftest.records.evidence import (
    GUILTY_PASS,
    NO_PASS,
    OTHER,
    REPLAYED,
    SINGLE,
    TWO_BY_TWO,
    UNDECIDED,
    answer,
    label,
)
from difftest.records.finding import Finding
from difftest.records.reduced_run import ReducedRun
from difftest.records.script_ending import ScriptEnding
from reports.draft import private, readable
from reports.draft.compilation import GRAPH, PROGRAM, compile_program
from reports.draft.markup import cut, plain
from reports.draft.reportable import Releases
from reports.reproducer.fault import tolerance
from reports.tracebacks import without_own_frames

OF_RUN = ("python", "device", "gpu", "PJRT device")
"""What maintainers ask for of a run, beside the versions of packages."""

MOST_GRAPH_LINES = 60
"""A longer graph is attached alone."""

MOST_IN_SENTENCE = 160
"""The most characters of a line of output that stands in a sentence."""

FRAMEWORKS = {"torchax": "torchax", "tpu": "torch_tpu", "xla": "torch_xla", "torch": "torch"}
"""The framework of a backend, by the first word of its name."""

AGREES = "agrees"
EAGER = "the result of eager torch on the CPU"

_CHECK = re.compile(r"(?P<place>[\w-]+\.(?:cc|h|cpp):\d+)\] (?P<check>Check failed: [^\n]*)")

_SHARDS = re.compile(r"spmd|dtensor|distribute", re.IGNORECASE)
"""What a script that shards names."""

MOST_TITLE = 250
"""What a tracker takes; titles are shorter, except of messages that are one long clause."""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The content of a draft, which the templates read.

    `releases` are those in which the fault was tried. `reproducer` is a script that shows it, and `output`
    what it printed; both empty where there is none. `listed`: the script is the ledger's. `ran_here` says
    that difftest itself wrote and ran that script, with that output. `collected` is the output of
    `collect_env`, `versions` are further pairs of name and version, and `artifacts` the files to attach.
    `graph` is StableHLO that the script made. `before_pass` and `after_pass` are the smallest module before
    and after XLA's guilty pass, empty where there is none. `run` is a run of `case`, whose numbers stand in
    for `of_original`, the measurement of the case that showed the finding first. `called` is what users call
    each backend, and `reason` that of the ledger's entry about the finding, empty where there is none.
    `listed_title` is that of the listed fault.
    """

    PARTS: ClassVar[str] = "issues/_of_finding.jinja"
    graph_name: ClassVar[str] = GRAPH
    compile_name: ClassVar[str] = PROGRAM

    finding: Finding
    case: Case
    releases: Releases
    of_original: Measurement | None = None
    reproducer: str = ""
    listed: bool = False
    output: str = ""
    ran_here: bool = False
    versions: tuple[tuple[str, str], ...] = ()
    collected: str = ""
    artifacts: tuple[str, ...] = ()
    graph: str = ""
    before_pass: str = ""
    after_pass: str = ""
    run: ReducedRun | None = None
    called: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    listed_title: str = ""

    @cached_property
    def title(self) -> str:
        """What happens in the draft's case, in one line without characters that a tracker acts on."""
        shown = msgspec.structs.replace(self.finding, divergence=self.shown)
        own = self.listed_title if self.listed else ""
        line = private.shared(own or titles.upstream_title(shown, self._called, self.reason))
        plainly = " ".join(re.sub("[@#<>]" if own else "[@#<>`]", " ", line).split())
        return plainly if len(plainly) <= MOST_TITLE else plainly[:MOST_TITLE].rpartition(" ")[0]

    @property
    def compiler_title(self) -> str:
        """The title for maintainers of the compiler: the check that failed, where one did."""
        check, place = self.check
        return f"XLA aborts in {place}: {check}" if self.graph and check else self.title

    @property
    def days(self) -> str:
        """The days of the first and the last run that showed it."""
        first, last = (text.partition("T")[0] for text in (self.finding.first_seen, self.finding.last_seen))
        return f"First seen on {first}" + (f", last on {last}." if last != first else ".")

    @property
    def printed_line(self) -> str:
        """What the script printed, where that is one line which stands well in a sentence."""
        line = self.printed.rstrip("\n")
        fits = line == " ".join(line.split()) and "`" not in line and len(line) <= MOST_IN_SENTENCE
        return line if fits else ""

    @property
    def ends(self) -> str:
        """What the script does, as a verb before its output: it prints that, or dies of a signal."""
        ending = ScriptEnding.of(self.reproducer)
        if ending is None or not ending.is_signal:
            return "prints"
        return f"dies of {ending.kind}" + (" and prints" if self.printed else ".")

    @property
    def _called(self) -> Mapping[str, str]:
        """What users call each backend: XLA alone where the case and its script shard nothing."""
        own = plugins.plain(self.finding.divergence.backend)
        alone = self.case.world_size == 1 and own.startswith("xla_") and not _SHARDS.search(self.reproducer)
        return {**self.called, own: "XLA"} if alone else self.called

    @property
    def script(self) -> str:
        """The reproducer as maintainers read it."""
        return readable.script(self.reproducer)

    @property
    def printed(self) -> str:
        """The lines of the script's output that say what is wrong."""
        return readable.output(without_own_frames(self.output))

    @property
    def shown(self) -> Divergence:
        """What the run of the case shows; of the case that showed the finding first, where it was not run."""
        return self.run.divergence if self.run else self.finding.divergence

    @property
    def measurement(self) -> Measurement | None:
        """The measurement of the same run."""
        return self.run.measurement if self.run else self.of_original

    @property
    def measured_again(self) -> bool:
        """Whether `shown` and `measurement` are of the case that the draft has."""
        return self.run is not None

    @property
    def happens(self) -> str:
        """What happens, in a sentence with the versions.

        The title begins with the backend, or one word such as `DTensor`, before a colon, which the sentence
        has not. Its numbers are of the draft's own case, else it has none.
        """
        used = " and ".join(self._packages()) or "the versions below"
        subject, colon, rest = self.title.partition(": ")
        on = f"{counted(self.case.world_size, 'rank')} (mesh {self.case.layout.mesh})"
        if colon and (subject == self.backend or " " not in subject):
            what = f"{subject}{f' on {on}' if self.run else ''} with {used}: {rest}"
        elif self.run:
            what = f"On {on} with {used}: {self.title}"
        else:
            what = f"{self.title[:1].upper()}{self.title[1:]} ({used})"
        measured, ratio = (self.run.measurement, self.run.divergence.ratio) if self.run else (None, None)
        by = "by up to" if "off by" in rest else "off by up to"
        far = "" if measured is None else f", {by} {measured.greatest:.3g}"
        noise = "" if ratio is None or ratio >= FLOORS_MOST else f", {ratio:.3g} x the rounding noise"
        return f"{what}{far}{noise}."

    def _packages(self) -> Iterator[str]:
        """The packages that the finding's backend computes with, and their versions in its run."""
        for name in dict.fromkeys(("torch", self._framework)):
            if version := self.finding.environment.get(name, "").strip():
                yield f"{name} {version}"

    @property
    def _framework(self) -> str:
        """The package of the finding's backend, which its maintainers publish."""
        shown = self.finding.divergence
        return FRAMEWORKS.get(plugins.plain(shown.backend).partition("_")[0], shown.side)

    @property
    def check(self) -> tuple[str, str]:
        """The check of XLA that failed, and its place; empty where none did."""
        line = _CHECK.search(self.shown.what) or _CHECK.search(self.shown.log)
        return (line["check"].strip(), line["place"]) if line else ("", "")

    @property
    def explanation(self) -> str:
        """What the script of a listed fault says beside its title."""
        return readable.explanation(self.reproducer) if self.listed else ""

    @property
    def expected(self) -> str:
        """What is expected and what came, and which other runs of the case are right."""
        wanted, actual = self._expectation
        facts = self._facts
        remark = facts.remark if isinstance(facts, RemarkFacts) and not actual else ""
        got = f", got {actual}" if actual else f". {self.shown.tensor}: {remark}" if remark else ""
        runs = (SINGLE, "on one device"), (OTHER, f"with {self.other_side} in the same layout")
        right = [words for name, words in runs if self.finding.evidence.get(name) == AGREES]
        return f"Expected {wanted}{got}." + (f" It is correct {' and '.join(right)}." if right else "")

    @property
    def behaviour(self) -> str:
        """What is expected, below a heading that says so."""
        wanted, actual = self._expectation
        instead = f" instead of {actual}" if actual else ""
        return f"{wanted[:1].upper()}{wanted[1:]}{instead}."

    @property
    def _expectation(self) -> tuple[str, ...]:
        """What is expected, and what came instead: what the script printed, else what the run measured.

        The second is empty where other words say it, as a title does with an exception.
        """
        printed = readable.stated(self.output)
        if printed[0]:
            return readable.valued(*printed)
        if self.shown.symptom in FAILURES:
            return "no error", ""
        match self._facts:
            case PropertyFacts(property=name, expected=expected, actual=actual):
                return readable.valued(f"{name} {expected}", actual)
            case KindsFacts(count=count, expected=expected, actual=actual):
                return readable.valued(expected or EAGER, f"{count} values that are {actual}")
        return EAGER, ""

    @property
    def _facts(self) -> Facts | None:
        """The facts of the draft's own case; None where it was not run and is not the first one."""
        return self.shown.facts if self.measured_again or not self.reduced else None

    @property
    def detail(self) -> str:
        """What is wrong, and where; the ends of a long message."""
        return cut(without_own_frames(self.shown.detail))

    @property
    def log(self) -> str:
        """The ends of the run's log, without the frames of our own files; empty where `detail` has it."""
        log = without_own_frames(self.shown.log)
        return "" if log.strip() in without_own_frames(self.shown.detail) else cut(log)

    @property
    def graph_fits(self) -> bool:
        """Whether the graph is short enough to be read."""
        return 0 < self.graph.count("\n") <= MOST_GRAPH_LINES

    @property
    def environment(self) -> str:
        """What `collect_env` says of versions, system and GPU."""
        return readable.environment(self.collected)

    @property
    def reduced(self) -> bool:
        """Whether script and case are smaller than the case that showed the finding and was measured."""
        return self.case.id != self.finding.case

    @property
    def verdict(self) -> str:
        """One sentence: what is at fault, and where it shows."""
        shown = self.shown
        place = f"step {shown.step}, {titles.PASSES[shown.stage]}"
        return f"Blame: {self.finding.blame}. {self.backend} shows {shown.symptom} at {place}."

    @property
    def backend(self) -> str:
        """What users call the finding's backend, in whatever environment."""
        return titles.spoken(plugins.plain(self.finding.divergence.backend), self._called)

    @property
    def other_side(self) -> str:
        """What users call the side that it is compared with."""
        return "torch_xla" if self.shown.side == "torch" else "torch's process groups"

    @property
    def reported(self) -> tuple[tuple[str, str], ...]:
        """The versions and devices that the run itself reported, which a maintainer asks for first."""
        return tuple(pair for pair in self.versions if self._is_asked_for(*pair))

    def _is_asked_for(self, name: str, value: str) -> bool:
        """Whether a version is that of a device of the run, or of a package with which its side computes."""
        subject, _, whose = name.partition(" (")
        own = not whose or whose.endswith("run)")
        others = {*FRAMEWORKS.values()} - {"torch", self._framework}
        on_torch = self.finding.divergence.side == "torch"
        packages = ("torch",) if on_torch else {*installed.COMPUTING} - others
        return value != "not installed" and own and subject in (*packages, *OF_RUN)

    @property
    def further_versions(self) -> tuple[tuple[str, str], ...]:
        """The rest of `versions`: settings of the run, and what is installed where this was drafted."""
        return tuple(pair for pair in self.versions if not self._is_asked_for(*pair))

    @property
    def stability(self) -> str:
        """How often it came back, as `k of n`."""
        back, times = self.finding.repeats
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
            (self._in_the_users_words(name), self._in_the_users_words(text.removeprefix(kind).lstrip(",: ")))
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
        rest = {*self.finding.evidence} - {*TWO_BY_TWO, REPLAYED, GUILTY_PASS}
        return tuple(
            (label(name), self._in_the_users_words(text))
            for name, text in self.finding.evidence.items()
            if name in rest
        )

    def _in_the_users_words(self, text: str) -> str:
        """`text` with what users call each backend in place of its name."""
        return re.sub(r"\w+", lambda word: titles.spoken(word[0], self.called), text)

    @property
    def replayed(self) -> str:
        """What a replay on another XLA showed; empty where there was none."""
        return self.finding.evidence.get(REPLAYED, "")

    @property
    def guilty_pass(self) -> str:
        """The pass of XLA that is at fault, and why; empty where none is, or none was looked for."""
        text = self.finding.evidence.get(GUILTY_PASS, "")
        return "" if text.partition(":")[0] in NO_PASS else text

    @property
    def tolerance(self) -> str:
        """The reproducer's tolerance."""
        return "" if self.measurement is None else f"{tolerance(self.measurement):.3g}"

    @property
    def device(self) -> str:
        """The kind of XLA's devices; empty where neither the run nor a script that ran here names it."""
        named = re.search(r'PJRT_DEVICE="(\w+)"', self.reproducer) if self.ran_here else None
        return self.finding.environment.get("device", "") or (named[1] if named else "")

    @property
    def devices(self) -> int:
        """For how many devices the graph is."""
        return devices(self.reproducer) or self.case.world_size

    @property
    def compile(self) -> str:
        """The program that compiles the graph."""
        return compile_program(self.devices)

    @property
    def case_json(self) -> str:
        """The case as JSON, with a line for each of its fields."""
        fields = msgspec.json.decode(self.case.to_json())
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items())
        return f"{{\n{lines}\n}}"


def devices(script: str) -> int:
    """How many devices a script on XLA:CPU has; 0 where it does not say."""
    named = re.search(r'CPU_NUM_DEVICES="(\d+)"', script)
    return int(named[1]) if named else 0
