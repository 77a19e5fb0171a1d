"""The draft of a listed fault in the form of its tracker, from its script and what that printed."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from difftest.findings.faults import NEWEST, KnownFault, KnownScript, fixed_in
from reports.draft import readable
from reports.draft.rendering import render

IMPACTS = {
    "crash, wrong": "Sometimes nothing fails, and a training run goes on with wrong numbers.",
    "exception, wrong": "Sometimes nothing fails, and a training run goes on with wrong numbers.",
    "wrong numbers": "Nothing fails: a training run goes on with wrong numbers.",
    "wrong": "Nothing fails: a training run goes on with it.",
    "replicas part": "Nothing fails: the replicas train on with different weights.",
    "hang": "Training stops without a word.",
    "crash": "The process ends without a Python exception.",
    "no error": "Nothing fails: a mistake in the program goes unnoticed.",
    "no gradient": "Nothing fails: what comes before is not trained.",
    "on the host": "Nothing fails: each step waits for the host.",
    "recompilation": "Nothing fails: each new number costs a compilation.",
    "too much": "Nothing fails: the tensor takes more memory than its sharding should.",
    "": "Training stops with an exception.",
}
"""What a kind of fault means for a training run, by words of its kind; the first that is there counts."""

EXPECTED = {
    "no error": "the error that torch raises for the same call on the CPU",
    "on the host": "that all of it runs on the device",
    "recompilation": "that a compiled program is used again",
    "too much": "that every device holds its own shard alone",
    "replicas part": "equal weights on all ranks",
}
"""What is expected of a kind of fault that does not say it, by words of its kind; else `COUNTERPARTS`."""

COUNTERPARTS = {
    "DTensor": "what the same call gives on the whole `torch.Tensor`",
    "torch": "what the documentation of the call says",
    "XLA": "what NumPy computes",
    "": "what the same call gives on the CPU without XLA",
}
"""Where the right result comes from, by the topic of a fault."""

TRACKERS = {"torch": "pytorch", "torch_xla": "xla"}
"""The trackers that have a form of their own, by package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A script that showed a fault, what it printed, and the versions of the packages that it used.

    `hlo` is what a script on JAX compiles, empty for other scripts. `guilty_pass` names the pass of XLA that
    is at fault, with the smallest module before it and after it; empty for other packages.
    """

    script: KnownScript
    output: str
    versions: Mapping[str, str]
    hlo: str = ""
    guilty_pass: str = ""
    before_pass: str = ""
    after_pass: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultDraft:
    """The content of a listed fault's draft, which the templates read."""

    PARTS: ClassVar[str] = "issues/_of_fault.jinja"

    title: str
    happens: str
    impact: str
    expected: str
    script: str
    output: str
    versions: tuple[str, ...]
    hlo: str
    explanation: str = ""
    guilty_pass: str = ""
    before_pass: str = ""
    after_pass: str = ""
    device: str = "CPU"

    @property
    def wanted(self) -> str:
        """What the script printed as expected and actual, else what is expected; as the end of a sentence."""
        expected, actual = readable.stated(self.output)
        return f"{expected}, got {actual}" if expected else self.expected

    @property
    def behaviour(self) -> str:
        """What is expected, below a heading that says so."""
        return f"{self.expected[:1].upper()}{self.expected[1:]}."


def draft(fault: KnownFault, shown: Shown) -> str:
    """The draft of a fault for its tracker; its first line says so where it should not be posted."""
    content = FaultDraft(
        title=title(fault),
        happens=happens(fault, shown),
        impact=impact(fault),
        expected=expected(fault, shown),
        script=readable.script(shown.script.text),
        explanation=readable.explanation(shown.script.text),
        output=readable.output(shown.output),
        versions=tuple(versions(fault, shown)),
        hlo=shown.hlo,
        guilty_pass=shown.guilty_pass,
        before_pass=shown.before_pass,
        after_pass=shown.after_pass,
    )
    return "\n".join((*notices(fault), render(content, TRACKERS.get(fault.package, "openxla"))))


def topic(fault: KnownFault) -> str:
    """What the fault is about, as its tracker calls it: DTensor, SPMD, torch itself, or nothing of these."""
    script = fault.shown_by.text
    if fault.package == "torch":
        return "DTensor" if "torch.distributed.tensor" in script or "DTensor" in fault.title else "torch"
    return "SPMD" if "use_spmd" in script else ""


def title(fault: KnownFault) -> str:
    """The fault's title, which begins with its topic where that is not in the words."""
    return fault.title[:1].upper() + fault.title[1:]


def happens(fault: KnownFault, shown: Shown) -> str:
    """What happens, in a sentence with the versions."""
    used = " and ".join(f"{name} {release}" for name, release in shown.versions.items() if release)
    about = {"DTensor": " on DTensors", "SPMD": " under SPMD"}.get(topic(fault), "")
    return f"With {used}{about if fault.what != fault.title else ''}, {fault.what}."


def impact(fault: KnownFault) -> str:
    """What the fault means for a training run."""
    return next(words for kind, words in IMPACTS.items() if kind in fault.kind)


def expected(fault: KnownFault, shown: Shown) -> str:
    """What is expected instead, as the end of a sentence."""
    if fault.expected:
        return fault.expected
    about = topic(fault) if "torch" in shown.versions else "XLA"
    usual = COUNTERPARTS.get(about, COUNTERPARTS[""])
    return next((words for kind, words in EXPECTED.items() if kind in fault.kind), usual)


def notices(fault: KnownFault) -> tuple[str, ...]:
    """Why the draft should not be posted as it stands; empty where nothing is known against it."""
    newest = fixed_in(fault.upstream[-1])
    reported = f"> Reported already: {fault.issue}. Add to that instead of posting this.\n"
    fixed = f"> Fixed in {newest}, the newest release. Do not post this.\n"
    return (*([reported] if fault.issue else []), *([fixed] if newest else []))


def versions(fault: KnownFault, shown: Shown) -> list[str]:
    """The packages of the run, the platform, and the releases in which the fault was tried."""
    releases = dict(fault.releases) | {f"jaxlib {name}": state for name, state in fault.jaxlib.items()}
    tried = ", ".join(f"{name} {state}" for name, state in releases.items())
    newest = NEWEST.get(fault.needs, "")
    is_tried = newest in fault.releases or fault.jaxlib
    untried = "" if is_tried else f"; not yet in {newest}, the newest"
    python = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    packages = [f"{name} {release}" for name, release in shown.versions.items() if release]
    return [*packages, python, f"Tried with {fault.needs} {tried}{untried}"]
