"""The parent's end of `workers.own.describe` and `workers.own.listed`.

What is known of a user's module, and the models by name, without importing any of them here.
"""

import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from difftest.cases.described import Answer, Description, DescriptionRequest
from difftest.cases.layout import Mesh
from difftest.ground import plugins
from difftest.ground.errors import UsageError
from workers.isolate.zygotes import environment
from workers.own import named

MOST_SECONDS = 600.0
"""How long a description may take; it imports torch, and builds and runs the module with four rows."""


class Listed(msgspec.Struct, frozen=True):
    """The models of a source by name, one of them, and the version of its package."""

    names: tuple[str, ...] = ()
    version: str = ""
    example: str = ""
    error: str = ""


def sources() -> tuple[str, ...]:
    """The sources of models by name."""
    return plugins.names(named.__name__)


def listed(source: str) -> Listed:
    """The models of a source; `UsageError` for no source, or where its package is not installed."""
    plugins.require(named.__name__, [source])
    answer = msgspec.json.decode(_answer(source, "workers.own.listed", b"", source), type=Listed)
    if answer.error:
        raise UsageError(answer.error)
    return answer


def described(source: str, meshes: Sequence[Mesh]) -> Description:
    """What is known of `source`, with the layouts of its plan on `meshes`.

    `UsageError` where it is no model that can be compared, or this Python has no torch.
    """
    request = msgspec.json.encode(DescriptionRequest(source, tuple(meshes)))
    answer = msgspec.json.decode(_answer(source, "workers.own.describe", request), type=Answer)
    if answer.description is None:
        msg = f"{source}: {answer.error}"
        raise UsageError(msg)
    return answer.description


def described_each(names: Sequence[str]) -> Iterator[tuple[str, Description | UsageError]]:
    """Models by name with what is known of each, or why nothing is: one process imports the packages once.

    A model is described as it is taken. Where the process dies the next model gets another.
    """
    left = deque(names)
    while left:
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "workers.own.describe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
        ) as process:
            assert process.stdin  # noqa: S101  a pipe
            assert process.stdout  # noqa: S101  a pipe
            for name in iter(lambda: left.popleft() if left else "", ""):
                process.stdin.write(msgspec.json.encode(DescriptionRequest(name, ())) + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    yield name, UsageError(f"{name} could not be described: the process died")
                    break
                answer = msgspec.json.decode(line, type=Answer)
                yield name, answer.description or UsageError(f"{name}: {answer.error}")


def _answer(source: str, module: str, request: bytes, *arguments: str) -> bytes:
    """What a process of our own answers; `UsageError` where it does not."""
    command = [sys.executable, "-P", "-m", module, *arguments]
    try:
        done = subprocess.run(  # noqa: S603  our own module under this Python
            command, input=request, capture_output=True, check=False, env=environment(), timeout=MOST_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        msg = f"{source}: building and running it with four rows took more than {MOST_SECONDS:g} s"
        raise UsageError(msg) from error
    if not done.stdout:
        log = done.stderr.decode(errors="replace").strip().splitlines()
        msg = f"{source} could not be described: {log[-1] if log else f'exit status {done.returncode}'}"
        raise UsageError(msg)
    return done.stdout
