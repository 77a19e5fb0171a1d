"""A flip in words."""

from difftest.findings.faults import known
from difftest.findings.flips import Became, Flip, Tried

VERBS = {Became.FIXED: "fixes", Became.BROKEN: "breaks", Became.CHANGED: "changes"}


def titles() -> dict[str, str]:
    """The titles of the known faults by name."""
    return {fault.name: fault.title for fault in known()}


def title(flip: Flip) -> str:
    """A flip in one line, such as `jaxlib 0.12.0.1 fixes: SPMD: ...`."""
    return f"{release(flip)}: {subject(flip)}"


def release(flip: Flip) -> str:
    """The release and what it does, such as `jaxlib 0.12.0.1 fixes`."""
    return f"{flip.package} {flip.after.release} {VERBS[flip.became]}"


def subject(flip: Flip) -> str:
    """The fault or the case, and the partitioner if it is of a certain one."""
    after = flip.after
    what = titles().get(after.name, f"case {after.name} on {after.backend}")
    return what + (f" ({after.partitioner})" if after.partitioner else "")


def explanation(flip: Flip) -> str:
    """What the two releases showed, in a sentence each."""
    return f"{shown(flip.before)}. {shown(flip.after)}."


def shown(tried: Tried) -> str:
    """What a release showed, such as `2.9.0: the fault is there`."""
    return f"{tried.release}: {tried.words}"
