"""What the comparison of two recorded runs found, as data that goes to JSON."""

from typing import Any

import msgspec

EQUAL, DIFFER, UNDECIDED = "equal within rounding", "differ", "cannot be compared"

STATUSES = {EQUAL: 0, DIFFER: 1, UNDECIDED: 3}
"""The exit status of each verdict."""

DATA, LOSS = "data", "loss"
"""What may be the first thing wrong, besides the kinds of `difftest.runs.layout`."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Something that differs between the two runs: its name and both values, empty where there is none."""

    name: str
    first: str
    second: str


class WrongTensor(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor that is wrong: step, kind, path, which output of several, and by how much.

    `difference` and `norm` are Euclidean norms. `ratio` is the difference in units of `noise`. `ranks` are
    those of the second run, or of the first, whose share or copy is wrong, where that shows; `share` has it
    in words. `before` is the last tensor before it that is still right. `users` are the modules whose
    backward passes have computed it, where it is the gradient of what they took.
    """

    step: int
    kind: str
    owner: str
    place: str = ""
    difference: float = 0.0
    norm: float = 0.0
    noise: float = 0.0
    ratio: float = 0.0
    ranks: tuple[int, ...] = ()
    share: str = ""
    before: str = ""
    users: tuple[str, ...] = ()

    @property
    def tensor(self) -> str:
        """The tensor in words."""
        owner = self.owner or "the model"
        words = {
            DATA: f"the model's input {owner}",
            LOSS: "the loss",
            "start": f"the parameter {owner} before the first step",
            "output": f"the output of {owner}",
            "buffer": f"the buffer {owner} after the step",
            "output gradient": f"the gradient of the output of {owner}",
            "gradient": f"the gradient of {owner}",
            "updated": f"the parameter {owner} after its update",
        }[self.kind]
        return f"{words} ({self.place.strip('.')})" if self.place else words


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The losses of a step in both runs, how far rounding may part them, and whether they can be compared."""

    step: int
    first: float | None
    second: float | None
    band: float
    comparable: bool


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Whether two recorded things agree: `verdict` is a key of `STATUSES`."""

    verdict: str

    @property
    def status(self) -> int:
        """The exit status of a command that compared."""
        return STATUSES[self.verdict]

    def described(self) -> dict[str, Any]:
        """The JSON object of a command with `--json`. What is not finite is null, which JSON has."""
        fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return fields


class RunComparison(Agreement, frozen=True, kw_only=True):
    """The verdict on two runs, and why.

    `measured` says whether noise was measured, or is only bounded. `wrong` counts the wrong tensors by kind
    in the step of the first. `horizon` is the first step at which rounding alone has grown so far that the
    runs can no longer be compared. `skipped` has the tensors that were not compared, by reason.
    """

    names: tuple[str, str]
    settings: tuple[Setting, ...]
    first: WrongTensor | None
    hints: tuple[str, ...]
    wrong: dict[str, int]
    steps: int
    compared: int
    skipped: dict[str, int]
    measured: bool
    greatest: float
    horizon: int | None
    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()
