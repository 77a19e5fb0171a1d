"""How much campaigns covered of what can be reached, and what they did not reach, and why."""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from difftest.cases import parts
from difftest.cases.evenness import ORDER
from difftest.records.coverage import DISPATCHED, Coverage, What
from difftest.records.lacks import SupportTable
from difftest.records.reachable import COMPOSITE, FOREIGN, KERNEL, RANDOM, RULE, reachable

OPERATORS, RULES, KERNELS, ENTRIES, MODULES = (
    "torch's operators",
    "operators with a rule of DTensor",
    "operators with a kernel of torch_xla",
    "entries of the operator table",
    "torch's modules",
)
"""What can be reached."""

BLOCKS, FEATURES, OPTIONS = "building blocks", "features of training", "options of training"
PARTS = {BLOCKS: parts.BLOCKS, FEATURES: parts.FEATURES, OPTIONS: parts.OPTIONS}
"""What a case is made of, in words and as comparisons count it."""

NOT_YET = "not compared yet"

_REASONS = {
    COMPOSITE: "torch replaces it by other operators before it is dispatched, except in inference mode",
    FOREIGN: "it has no kernel for dense tensors on the CPU",
    RANDOM: "it draws random numbers",
}
_FAMILIES = {
    r"sparse|_cs[rc]|_bs[rc]|coo|coalesce|c(row|col)_ind|^(row|col)_ind": "it takes sparse tensors",
    r"^_?(values|indices)|_nnz|to_dense": "it takes sparse tensors",
    r"quantize|^q_|int[48]pack|_qparams|^int_repr|fbgemm|_observer": "it takes quantized tensors",
    r"nested|jagged": "it takes nested tensors",
    r"^_test_|^_?sym_|_assert|_dep_token|^_functional": "compilers and torch's own tests use it",
    r".(?<!_to)_copy$": "only functionalization dispatches it",
    r"^(record_stream|set_data|_version|is_pinned|_?pin_memory|rename)": "it computes nothing",
}
"""What the names of operators say that no program of plain tensors calls."""

_RULES = {
    "is_same_size": "DTensor answers by itself, and does not ask the rule",
    "_fused_adam": "the rule gives two results for an operator with five, and every call fails",
    "_fused_adamw": "the rule gives two results for an operator with five, and every call fails",
    "_conj": "it takes complex numbers",
    **dict.fromkeys(
        ("_amp_foreach_non_finite_check_and_unscale_", "_grouped_mm", "_scaled_mm"),
        "it takes no float64, in which the oracle computes",
    ),
}
"""Why programs cannot reach a rule of DTensor, of torch 2.9, where nothing else says so."""


class Entries(NamedTuple):
    """The entries of the operator table: the reason why one has no samples, or an empty text.

    `differentiable` are those of which torch computes gradients, `modules` those that are modules and no
    operators. `parts` are the building blocks and the features that there are. The generators have all of
    them, so that only who knows them can give them.
    """

    excluded: Mapping[str, str] = {}
    differentiable: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    parts: Mapping[str, frozenset[str]] = {}

    @property
    def usable(self) -> frozenset[str]:
        """Those with samples."""
        return frozenset(name for name, reason in self.excluded.items() if not reason)


UNKNOWN = Entries()
"""Where nobody gives them."""


class Total(NamedTuple):
    """How many of something were reached, on any side and by side; `reachable` is None where nobody knows.

    `everywhere` is how many of them every side reached; None where there are no two, or no sides.
    """

    what: str
    reachable: int | None
    reached: int
    by_side: Mapping[str, int]
    everywhere: int | None = None


class Cut(NamedTuple):
    """How many operators a side reached in a dtype: forward by how their operands were cut, and backward.

    `regimes` are those in which it reached any.
    """

    side: str
    dtype: str
    whole: int
    even: int
    uneven: int
    empty: int
    backward: int
    regimes: tuple[str, ...]


class Unreached(NamedTuple):
    """What was not reached on any side, for one reason; the names are sorted."""

    what: str
    reason: str
    names: tuple[str, ...]


def totals(coverage: Coverage, entries: Entries = UNKNOWN) -> Iterator[Total]:
    """The rows of the summary: operators, entries of the table, modules, parts, rules, kernels.

    Modules are entries too, so that only `entries` tell them apart: there are no rows of modules without.
    """
    data, sides = reachable(), coverage.sides()
    chosen: dict[str, AbstractSet[str]] = {ENTRIES: entries.usable - entries.modules}
    if entries.modules:
        chosen[MODULES] = entries.usable & entries.modules
    whats: list[tuple[str, AbstractSet[str], What, bool | None]] = [
        (f"{OPERATORS}, forward", data.dispatched, "forward", None),
        (f"{OPERATORS}, backward", data.dispatched, "backward", None),
    ]
    for name, usable in chosen.items():
        whats += [
            (f"{name}, forward", usable, "entries", None),
            (f"{name}, backward", usable & entries.differentiable, "differentiated", None),
            (f"{name}, with sharded operands", usable, "entries", True),
        ]
    for title, most, what, sharded in whats:
        yield _total(title, most, {side: coverage.names(what, side, sharded=sharded) for side in sides})
    for title, kind in PARTS.items():
        most = entries.parts.get(title, frozenset())
        yield _total(title, most, {side: coverage.parts_of(kind, side) for side in sides})
    yield Total(RULES, len(data.having(RULE)), len(coverage.ruled() & data.having(RULE)), {})
    yield Total("DTensor's rules, with placements", None, len(coverage.rules), {})
    yield Total(KERNELS, len(data.having(KERNEL)), len(data.having(KERNEL) & coverage.kernels.keys()), {})
    yield Total("kinds of nodes that torch_xla lowered", None, len(coverage.lowered), {})


def _total(what: str, most: AbstractSet[str], reached: Mapping[str, frozenset[str]]) -> Total:
    """The row of what each side `reached`; `most` is all that there is, or nothing where nobody knows."""
    own = {side: names & most if most else names for side, names in reached.items()}
    on_any = frozenset[str]().union(*own.values())
    on_all = on_any.intersection(*own.values())
    counts = {side: len(names) for side, names in own.items()}
    return Total(what, len(most) or None, len(on_any), counts, len(on_all) if len(own) > 1 else None)


def cuts(coverage: Coverage) -> Iterator[Cut]:
    """A row for each side and dtype."""
    cells = {what: set(coverage.cells[what]) for what in DISPATCHED}
    for side, dtype in sorted({(cell.side, cell.dtype) for of_side in cells.values() for cell in of_side}):
        own = {
            what: [c for c in of_side if (c.side, c.dtype) == (side, dtype)]
            for what, of_side in cells.items()
        }
        forward = {kind: len({c.operator for c in own["forward"] if c.evenness == kind}) for kind in ORDER}
        backward = len({cell.operator for cell in own["backward"]})
        regimes = {cell.regime for of_side in own.values() for cell in of_side}
        yield Cut(side=side, dtype=dtype, **forward, backward=backward, regimes=tuple(sorted(regimes)))


def unreached(coverage: Coverage, lacks: SupportTable, entries: Entries = UNKNOWN) -> Iterator[Unreached]:
    """What no side reached, by reason: excluded, refused by a backend, or not compared yet."""
    data, own = reachable(), {name: _why(name, entries) for name in reachable().operators}
    every_backend = {row.backend for row in lacks.rows()}
    reached, called = coverage.names("forward") | coverage.names("backward"), coverage.names("entries")
    for what, names, excluded, backends in (
        (OPERATORS, data.operators.keys() - reached, own, every_backend),
        (ENTRIES, entries.excluded.keys() - entries.modules - called, entries.excluded, every_backend),
        (MODULES, entries.modules - called, entries.excluded, every_backend),
        *(
            (what, entries.parts.get(what, frozenset()) - coverage.parts_of(kind), {}, set[str]())
            for what, kind in PARTS.items()
        ),
        (RULES, data.having(RULE) - coverage.ruled(), own | _RULES, coverage.ruled_by),
        (KERNELS, data.having(KERNEL) - coverage.kernels.keys(), {}, coverage.lowered_by),
    ):
        refused = _refused(lacks, backends)
        reasons: dict[str, list[str]] = {}
        for name in sorted(names):
            reasons.setdefault(excluded.get(name) or refused.get(name) or NOT_YET, []).append(name)
        for reason in sorted(reasons, key=lambda reason: (-len(reasons[reason]), reason)):
            yield Unreached(what, reason, tuple(reasons[reason]))


def _refused(lacks: SupportTable, backends: AbstractSet[str]) -> Mapping[str, str]:
    """The operators that some of the backends refused, or whose programs they did, with the reason."""
    rows, refused = [row for row in lacks.rows() if row.backend in backends], dict[str, str]()
    for row in rows:
        refused[row.operator] = f"{row.backend} refused its programs"
    for row in rows:
        names = [name for overload in row.overloads for name in (overload, overload.partition(".")[0])]
        refused |= dict.fromkeys(names, f"refused by {row.backend}")
    return refused


def _why(name: str, entries: Entries) -> str:
    """Why no program of plain tensors reaches an operator; empty where one can.

    Some random operators have an entry of their own, with arguments that leave nothing to chance.
    """
    letters = reachable().operators[name]
    if f"aten.{name}" in entries.usable:
        return ""
    by_letter = (reason for letter, reason in _REASONS.items() if letter in letters)
    by_name = (reason for pattern, reason in _FAMILIES.items() if re.search(pattern, name))
    return next(by_letter, "") or next(by_name, "")
