"""The faults of upstream that difftest found: what each is, its script, its releases, and what showed it.

`faults.toml` beside this file holds them, and `origins.toml` the campaigns and other ways that showed them.
`tools/releases.py` runs the scripts on a release and writes there what came of it. `docs/generate.py` makes
the tables of `docs/faults.md` from both.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from difftest.records.finding import State

FAULTS_FILE = Path(__file__).with_name("faults.toml")
ORIGINS_FILE = Path(__file__).with_name("origins.toml")

SCRIPTS = "tests/upstream/"
"""Where the scripts are, as the ledger writes it."""

Package: TypeAlias = Literal["torch", "torch_xla", "XLA", "torchax", "torch_tpu"]

NEWEST: Mapping[str, str] = {
    "torch": "2.15.0",
    "torch_xla": "2.9.0",
    "torch_tpu": "0.2.0",
    "torchax": "0.0.13",
}
"""The newest release of each package on 2026-11-22; torch_xla ended with 2.9."""

LOUD = ("exception", "crash", "not supported", "capability")
"""Words of kinds that nobody overlooks."""


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that showed faults: `what` was run or read, and when; `record` is the commit that says so."""

    name: str
    what: str
    record: str = ""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of `package`.

    `script` is a file of `tests/upstream/`, and `arguments` those that run this fault alone. `expected` is
    what should happen instead, as the end of a sentence, where the kind and the package do not say it.
    `issue` is the address of upstream's issue, empty where we know of none. `releases` maps releases of the
    distribution that the script needs (`needs`), old to new, to what the script said there; `notes` map them
    to what it printed where that was unclear. `on_jax` is a script, with an argument where it takes one, that
    shows a fault of XLA with jaxlib alone, whose XLA is newer than that of torch_xla, and `jaxlib` maps its
    releases to what that said.
    `origin` maps the names of what showed it, the first on record first, to the case and the minutes until it
    showed there, as in `index 94, 1.3 minutes`; empty where they are not recorded.
    """

    title: str
    package: Package
    kind: str
    script: str
    arguments: tuple[str, ...] = ()
    expected: str = ""
    issue: str = ""
    releases: Mapping[str, State] = {}
    notes: Mapping[str, str] = {}
    on_jax: str = ""
    jaxlib: Mapping[str, State] = {}
    origin: Mapping[str, str] = {}

    @property
    def needs(self) -> str:
        """The distribution whose releases decide: XLA comes with torch_xla."""
        return "torch_xla" if self.package == "XLA" else self.package

    @property
    def loud(self) -> bool:
        """Whether users notice it: the program fails, instead of going on with something wrong."""
        return any(word in self.kind for word in LOUD)

    @property
    def upstream(self) -> tuple[str, ...]:
        """What entries of the ledger call it: its issue, and its script with each argument."""
        scripts = tuple(f"{SCRIPTS}{self.script} {argument}" for argument in self.arguments)
        return (*([self.issue] if self.issue else []), *(scripts or (SCRIPTS + self.script,)))


class _Faults(msgspec.Struct, forbid_unknown_fields=True):
    fault: tuple[Fault, ...]


class _Origins(msgspec.Struct, forbid_unknown_fields=True):
    origin: tuple[Origin, ...]


@lru_cache
def read_faults() -> tuple[Fault, ...]:
    """All faults, in the order of the file."""
    return msgspec.convert(tomllib.loads(FAULTS_FILE.read_text()), type=_Faults).fault


@lru_cache
def read_origins() -> tuple[Origin, ...]:
    """What showed the faults, in the order of the file, which is that of time."""
    return msgspec.convert(tomllib.loads(ORIGINS_FILE.read_text()), type=_Origins).origin


def tried_on(upstream: str, package: str) -> Mapping[str, State]:
    """What the scripts of what the ledger calls `upstream` said on releases of `package`, old to new.

    An issue of several faults has the releases on which all of them said the same.
    """
    faults = [fault for fault in read_faults() if upstream in fault.upstream and fault.needs == package]
    states = [set(fault.releases.items()) for fault in faults]
    alike = set.intersection(*states) if states else set()
    return dict(sorted(alike, key=lambda pair: age(pair[0])))


def age(release: str) -> tuple[int, ...]:
    """Sorts releases from old to new."""
    return tuple(int(part) for part in re.findall(r"\d+", release))


def reported_at(upstream: str) -> str:
    """The address of upstream's issue of what the ledger calls `upstream`; empty where we know none."""
    if upstream.startswith(("https://", "http://")):
        return upstream
    return next((fault.issue for fault in read_faults() if upstream in fault.upstream), "")


def fixed_in(upstream: str) -> str:
    """The newest release, as `torch 2.15.0`, where the fault that the ledger calls `upstream` is fixed in it.

    Empty where it is alive there, or unclear. An issue of several faults is fixed where all of them are.
    """
    faults = [fault for fault in read_faults() if upstream in fault.upstream and fault.releases]
    newest = [list((fault.jaxlib or fault.releases).items())[-1] for fault in faults]
    if not faults or any(state != "fixed" for _, state in newest):
        return ""
    return f"{'jaxlib' if faults[0].jaxlib else faults[0].needs} {newest[0][0]}"
