"""The faults of upstream that difftest knows, each in a file `known/NAME.toml` with its script beside it.

The ledger, the cases of known faults and the tables of `docs/faults.md` are views of these files.
`origins.toml` has the campaigns and other ways that showed them. `tools/releases.py` runs the scripts on a
release, and writes what came of it.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from packaging.version import InvalidVersion, Version

from difftest.ground.errors import UsageError
from difftest.records import read_limits
from difftest.records.finding import State

KNOWN = Path(__file__).with_name("known")
ORIGINS_FILE = Path(__file__).with_name("origins.toml")

SCRIPTS = "difftest/findings/known/"
"""Where the scripts are, as findings name them."""

Package: TypeAlias = Literal["torch", "torch_xla", "XLA", "torchax", "torch_tpu"]

NEWEST: Mapping[str, str] = {
    "torch": "2.15.0",
    "torch_xla": "2.9.0",
    "torch_tpu": "0.2.0",
    "torchax": "0.0.13",
    "jaxlib": "0.12.0.1",
}
"""The newest release of each package that the list knows, on 2026-11-27; torch_xla ended with 2.9."""

_COMPONENT = re.compile(r"^(?:DTensor|SPMD): ")

LOUD = ("exception", "crash", "not supported", "capability")
"""Words of kinds that nobody overlooks."""


class FaultOrigin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that showed faults: `what` was run or read, and when; `record` is the commit that says so."""

    name: str
    what: str
    record: str = ""


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `case` that showed the fault, as JSON."""

    case: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownScript:
    """A script, and the texts of the exceptions or crashes by which it shows its fault.

    Without such texts it shows the fault by its status, which is 0. `title` is the fault's.
    """

    text: str
    raises: tuple[str, ...] = ()
    title: str = ""


class KnownFault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of `package`; `name` is that of its files.

    `title` is written as a tracker's: "DTensor: `mse_loss` of uneven rows is NaN". `expected` is what
    should happen instead, as the end of a sentence, where the kind and the package do not say it. `issue`
    is the address of upstream's issue, empty where we know of none.

    The script `known/NAME.py` shows this fault alone. `raises` are texts, one of which the exception or
    crash that ends it contains while the fault is there; without any, the script exits with status 0 while
    it is there. `releases` map releases of the distribution that the script needs (`needs`), old to new, to
    what the script said there; `notes` map them to what it printed where that was unclear.
    `known/NAME_on_jax.py` shows a fault of XLA with jaxlib alone, whose XLA is newer than that of
    torch_xla, and `jaxlib` maps its releases to what that said with the partitioner that JAX chooses, which
    is Shardy. `gspmd` maps them to what it said with GSPMD, of a script whose program XLA partitions.
    `raises_on_jax` are as `raises`.

    `passes` (`pass` in files) map releases, such as `jaxlib 0.7.1`, to the pass of XLA that is at fault
    there, or to what is at fault instead, such as `code generation` (`difftest passes NAME`).

    `origin` maps the names of what showed it, the first on record first, to the case and the minutes until it
    showed there, as in `index 94, 1.3 minutes`; empty where they are not recorded.

    `shows` are the ledger's patterns of what a divergence of it says (`difftest.findings.ledger`), where
    `upstream` is `known_as` if there is none; `reason` and `expires` stand for all of them, and `what` where
    there is no `reason`. Faults of a greater `priority` are looked for first, before those whose patterns say
    more. `examples` are cases that showed the fault, with which a first night begins.
    """

    name: str
    title: str
    package: Package
    kind: str
    raises: tuple[str, ...] = ()
    raises_on_jax: tuple[str, ...] = ()
    expected: str = ""
    issue: str = ""
    releases: Mapping[str, State] = {}
    notes: Mapping[str, str] = {}
    jaxlib: Mapping[str, State] = {}
    gspmd: Mapping[str, State] = {}
    passes: Mapping[str, str] = msgspec.field(default={}, name="pass")
    origin: Mapping[str, str] = {}
    reason: str = ""
    expires: date | None = None
    priority: int = 0
    shows: tuple[Mapping[str, Any], ...] = ()
    examples: tuple[Example, ...] = ()

    @property
    def what(self) -> str:
        """The title without the component before its colon."""
        return _COMPONENT.sub("", self.title)

    @property
    def script(self) -> Path:
        """The script that shows it; there is none of an issue that difftest only knows."""
        return KNOWN / f"{self.name}.py"

    @property
    def on_jax(self) -> Path | None:
        """The script that shows it with jaxlib alone, or None."""
        file = KNOWN / f"{self.name}_on_jax.py"
        return file if file.is_file() else None

    @property
    def shown_by(self) -> KnownScript:
        """The content of the script that shows it."""
        return KnownScript(text=self.script.read_text(), raises=self.raises, title=self.title)

    @property
    def shown_on_jax_by(self) -> KnownScript | None:
        """The content of the script that shows it with jaxlib alone, or None."""
        return KnownScript(text=self.on_jax.read_text(), raises=self.raises_on_jax) if self.on_jax else None

    @property
    def needs(self) -> str:
        """The distribution whose releases decide: XLA comes with torch_xla."""
        return "torch_xla" if self.package == "XLA" else self.package

    @property
    def loud(self) -> bool:
        """Whether users notice it: the program fails, instead of going on with something wrong."""
        return any(word in self.kind for word in LOUD)

    @property
    def known_as(self) -> str:
        """What findings call it, unless an entry says otherwise: its script, or its issue without one."""
        return f"{SCRIPTS}{self.name}.py" if self.script.is_file() or not self.issue else self.issue

    @property
    def upstream(self) -> tuple[str, ...]:
        """All that findings may call it: its issue, and its script."""
        return (*([self.issue] if self.issue else []), f"{SCRIPTS}{self.name}.py")


class _Origins(msgspec.Struct, forbid_unknown_fields=True):
    origin: tuple[FaultOrigin, ...]


def known(folder: Path = KNOWN) -> tuple[KnownFault, ...]:
    """All faults of a folder, by name; `UsageError` naming the file that cannot be read."""
    return _own() if folder == KNOWN else _of_folder(folder)


@lru_cache  # a command and its reports read the same files, which takes 0.1 s
def _own() -> tuple[KnownFault, ...]:
    return _of_folder(KNOWN)


def _of_folder(folder: Path) -> tuple[KnownFault, ...]:
    return tuple(_read(file) for file in sorted(folder.glob("*.toml")))


def _read(file: Path) -> KnownFault:
    try:
        text = read_limits.read(file, read_limits.MOST_LEDGER_BYTES).decode()
        return msgspec.convert({**tomllib.loads(text), "name": file.stem}, type=KnownFault)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeError, RecursionError) as error:
        msg = f"{file}: {error}"
        raise UsageError(msg) from error


@lru_cache
def read_faults() -> tuple[KnownFault, ...]:
    """The faults that have a script, by name."""
    return tuple(fault for fault in known() if fault.script.is_file())


@lru_cache
def read_origins() -> tuple[FaultOrigin, ...]:
    """What showed the faults, in the order of the file, which is that of time."""
    return msgspec.convert(tomllib.loads(ORIGINS_FILE.read_text()), type=_Origins).origin


def _named(upstream: str) -> list[KnownFault]:
    """The faults that findings call `upstream`: several may share an issue."""
    name = Path(upstream).stem if upstream.startswith(SCRIPTS) else None
    return [one for one in read_faults() if one.name == name or (upstream and one.issue == upstream)]


def known_script(upstream: str) -> KnownScript | None:
    """The script by which the ledger calls a fault; None where `upstream` is an issue, or nothing.

    Only scripts of faults that difftest itself lists: a corpus may name any file.
    """
    return next((fault.shown_by for fault in read_faults() if fault.upstream[-1] == upstream), None)


def raises_of(text: str) -> tuple[str, ...]:
    """The texts by which the script of a known fault shows it; empty for any other script."""
    scripts = (one for fault in read_faults() for one in (fault.shown_by, fault.shown_on_jax_by) if one)
    return next((script.raises for script in scripts if script.text == text), ())


def tried_on(upstream: str, package: str) -> Mapping[str, State]:
    """What the scripts of what the ledger calls `upstream` said on releases of `package`, old to new.

    An issue of several faults has the releases on which all of them said the same.
    """
    states = [set(fault.releases.items()) for fault in _named(upstream) if fault.needs == package]
    alike = set.intersection(*states) if states else set()
    return dict(sorted(alike, key=lambda pair: release_order(pair[0])))


def release_order(release: str) -> Version:
    """Sorts releases of a package from old to new: nightly builds and candidates come before the final one.

    Builds of one release are alike, such as `2.16.0+cpu`. What is no version comes first.
    """
    try:
        return Version(release.partition("+")[0])
    except InvalidVersion:
        return Version("0")


def age(release: str) -> tuple[int, ...]:
    """The numbers of a final release: they sort those of `jaxlib 0.7.1` too, with a name before them."""
    return tuple(int(part) for part in re.findall(r"\d+", release))


def reported_at(upstream: str) -> str:
    """The address of upstream's issue of what the ledger calls `upstream`; empty where we know none."""
    if upstream.startswith(("https://", "http://")):
        return upstream
    return next((fault.issue for fault in _named(upstream)), "")


def fixed_in(upstream: str) -> str:
    """The newest release, as `torch 2.15.0`, where the fault that the ledger calls `upstream` is fixed in it.

    Empty where it is alive there, or unclear. An issue of several faults is fixed where all of them are.
    """
    faults = [fault for fault in _named(upstream) if fault.releases]
    newest = [list((fault.jaxlib or fault.releases).items())[-1] for fault in faults]
    if not faults or any(state != "fixed" for _, state in newest):
        return ""
    return f"{'jaxlib' if faults[0].jaxlib else faults[0].needs} {newest[0][0]}"
