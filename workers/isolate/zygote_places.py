"""Where a zygote listens: the files by which the processes that share a folder find one of the same kind.

Zygotes are of the same kind where the interpreter, the imported modules and the environment are the same. The
name of a socket is a digest of these.
"""

import fcntl
import hashlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NAME_LETTERS = 16
"""Of a digest: the name of a socket has at most 107 bytes with its folder (unix(7))."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZygotePlace:
    """The files of a kind of zygote below `folder`, which exists, and what such a zygote is started with."""

    folder: Path
    preload: tuple[str, ...]
    variables: Mapping[str, str]

    @property
    def address(self) -> Path:
        """The socket of the zygote that runs, or ran last."""
        return self._file("socket")

    @property
    def log(self) -> Path:
        """What it prints."""
        return self._file("log")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps the other threads and processes from connecting and from starting the zygote."""
        with self._file("lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def connected(self) -> socket.socket | None:
        """A connection to the zygote, None where none listens."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(self.address))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            return None
        return connection

    def start(self) -> "subprocess.Popen[bytes]":
        """Starts the zygote, which can be connected to at once and answers when it has imported all."""
        with listening(self.address) as listener, self.log.open("wb") as log:
            # -P: a folder `torch` in the working directory is not the package
            command = [sys.executable, "-P", "-m", "workers.zygote", str(listener.fileno()), *self.preload]
            return subprocess.Popen(  # noqa: S603  our own module under this interpreter
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[listener.fileno()],
                env=self.variables,
            )

    def reason(self) -> str:
        """The last line that the zygote printed, which says why it did not start."""
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.is_file() else []
        return lines[-1] if lines else "no reason given"

    def _file(self, kind: str) -> Path:
        what: Sequence[object] = (sys.executable, self.preload, sorted(self.variables.items()))
        digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()
        return self.folder / f"{digest[:NAME_LETTERS]}.{kind}"


def listening(address: Path) -> socket.socket:
    """A socket that listens at an address, where another may have listened before."""
    address.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(address))
    listener.listen()
    return listener
