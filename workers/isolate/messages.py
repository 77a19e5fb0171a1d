"""What a process and its zygote send each other: one JSON object a line, whose `type` says what it is.

The client requests a rank or a further zygote. The zygote answers that it is ready, which process it has
forked, and how that process ended.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec


class Work(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every rank of a run does: it runs `cases` (JSON) one after another.

    For each case there are its backend, the number that its outcome repeats, and the folder of its results.
    `environment` has further environment variables. `directory` is the working directory, in which a user's
    files are.
    """

    backends: tuple[str, ...]
    cases: tuple[str, ...]
    numbers: tuple[str, ...]
    folders: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str


class Meeting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a rank meets those of other nodes, and the environment variables of its place on its own node."""

    rendezvous: str
    local: Mapping[str, str]


class RankRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rank"):
    """A rank to fork for a run; without a `meeting` all its ranks are on this machine."""

    run: str
    rank: int
    work: Work
    meeting: Meeting | None = None


class ZygoteRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="zygote"):
    """A zygote to fork: the modules that it imports, and the files of its socket and its log.

    `run` is what the answers call it.
    """

    run: str
    preload: tuple[str, ...]
    address: str
    log: str


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The first message of a zygote, the process `pid`: it has imported its modules."""

    pid: int


class Began(msgspec.Struct, frozen=True, kw_only=True, tag="began"):
    """The process `pid` was forked, for a rank of a run or as a further zygote, whose `rank` is 0."""

    run: str
    rank: int
    pid: int


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The process `pid` ended, with a status as `os.waitstatus_to_exitcode` gives it."""

    pid: int
    status: int


class Gone(msgspec.Struct, frozen=True, tag="gone"):
    """The zygote itself has ended: its connection says so to every run, and no message does."""


ForkRequest: TypeAlias = RankRequest | ZygoteRequest
Reply: TypeAlias = Ready | Began | Ended
OfRun: TypeAlias = Began | Ended | Gone
"""What a run hears of its zygote."""

REQUESTS, REPLIES = msgspec.json.Decoder(ForkRequest), msgspec.json.Decoder(Reply)


def line(message: ForkRequest | Reply) -> bytes:
    """A message as it is sent."""
    return msgspec.json.encode(message) + b"\n"
