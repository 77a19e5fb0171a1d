"""What is wrong, as data: how a run failed, or in what its results differ. `difftest.judge.words` words it.

Titles, causes and the ledger read these facts. Nothing parses the words that people read.
"""

from typing import Annotated, TypeAlias

import msgspec

Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number that the tables can hold."""

NOT_FINITE = "not finite"
OTHER_KINDS = "of other kinds"
"""What values of the wrong kind are in training, and where a program has several kinds of them."""


class FailureFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="failure"):
    """How a run ended that did not finish, on `rank`; see `difftest.judge.outcome.Failure`.

    `frame` is that of its identity. `again`: it was the second run, and the first one finished.
    """

    kind: str
    message: str = ""
    frame: str = ""
    rank: Whole = 0
    again: bool = False


class NumbersFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="numbers"):
    """Wrong numbers in a tensor, as a `difftest.judge.measured.Measurement` has them.

    `damage` is the word for what they look like (`difftest.judge.damage`), empty without one.
    """

    differing: Whole
    elements: Whole
    greatest: float
    scale: float
    floor: float
    exact: bool = False
    damage: str = ""


class KindsFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="kinds"):
    """`count` values on `ranks` that are numbers, infinities or NaN where the oracle has another of these.

    `actual` and `expected` are of `difftest.judge.elements.KINDS`. Otherwise `actual` is `NOT_FINITE` or
    `OTHER_KINDS`, and `expected` is empty.
    """

    count: Whole
    actual: str
    expected: str = ""
    ranks: tuple[Whole, ...] = ()


class PropertyFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="property"):
    """A tensor's `property`, such as its dtype, that is not the `expected` one."""

    property: str
    actual: str
    expected: str


class RemarkFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="remark"):
    """What a check says that no other facts fit.

    `placed`: it is about the tensor of its divergence, and not about the run.
    """

    remark: str
    placed: bool = True


MismatchFacts: TypeAlias = NumbersFacts | KindsFacts | PropertyFacts | RemarkFacts
Facts: TypeAlias = FailureFacts | MismatchFacts
