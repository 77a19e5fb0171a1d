"""Starts torch_tpu in the process of one rank, and makes sessions of torch's backends on it."""

import ctypes
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from difftest.cases.case import Case
from workers.torch import joining, process_groups
from workers.tpu import devices, limits

if TYPE_CHECKING:
    from workers.training.session import Session

PRELOAD = ("workers.tpu.preload", *process_groups.PRELOAD, "torch_tpu")
"""Our plugin first, because torch_tpu loads it as torch is imported."""

EXCHANGE = "exchange"
"""The folder, beside the rendezvous of a run, in which its ranks exchange inputs. It goes with the run."""

Joined: TypeAlias = Callable[[Case, int, str], AbstractContextManager["Session"]]
Joining: TypeAlias = Callable[[Case, int, str, process_groups.Devices], AbstractContextManager["Session"]]


def sessions(session: Joining) -> Joined:
    """A torch backend's `session`, on torch_tpu's devices.

    torch_tpu starts as the session is made, before it is entered. Where it finds a chip it starts with
    torch, so what a case does in between, such as a backward pass on the host, must find it started.
    """

    def made(case: Case, rank: int, rendezvous: str) -> AbstractContextManager["Session"]:
        start(Path(urlsplit(rendezvous).path).parent / EXCHANGE, case.world_size, rank)
        return _refusing(session(case, rank, rendezvous, devices), case)

    return made


@contextmanager
def _refusing(session: AbstractContextManager["Session"], case: Case) -> Iterator["Session"]:
    """The session; what the stand-in for a TPU lacks is no fault."""
    with limits.refused(case), session as joined:
        yield joined


@functools.cache  # a process has one client, whatever cases it runs
def _client() -> dict[str, int]:
    return {}


def start(
    folder: Path, ranks: int, rank: int, seconds: float = joining.COLLECTIVE_TIMEOUT_SECONDS
) -> ctypes.CDLL:
    """Gives this process its device, and torch the device type `tpu`; the library of our plugin.

    The ranks exchange inputs in `folder`, where a rank waits for the others for as many `seconds`. A process
    is one rank for good: later calls change nothing.
    """
    from torch_tpu import _loader

    from workers.tpu import preload

    folder.mkdir(exist_ok=True)
    library = ctypes.CDLL(str(preload.LIBRARY))
    library.shim_exchanged.restype = ctypes.c_int64
    if not _client():
        library.shim_configure(
            *(str(folder).encode(), ctypes.c_int(ranks), ctypes.c_int(rank), ctypes.c_double(seconds))
        )
        _loader._init_device("tpu")  # noqa: SLF001  autoload calls it where it finds a chip
        _client()["rank"] = rank
    return library
