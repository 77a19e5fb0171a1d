"""A flip in words."""

from difftest.findings.faults import known
from difftest.findings.flips import Became, Flip

VERBS = {Became.FIXED: "fixes", Became.BROKEN: "breaks", Became.CHANGED: "changes"}


def titles() -> dict[str, str]:
    """The titles of the known faults by name."""
    return {fault.name: fault.title for fault in known()}


def title(flip: Flip) -> str:
    """A flip in one line, such as `jaxlib 0.12.0.1 fixes SPMD: ...`."""
    one = flip.after
    what = titles().get(one.name, f"case {one.name} on {one.backend}")
    with_what = f" ({one.partitioner})" if one.partitioner else ""
    return f"{one.package} {one.release} {VERBS[flip.became]}: {what}{with_what}"


def explanation(flip: Flip) -> str:
    """What the two releases showed, in a sentence."""
    return f"{flip.before.release}: {flip.before.words}. {flip.after.release}: {flip.after.words}."
