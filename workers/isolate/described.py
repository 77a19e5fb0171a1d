"""The parent's end of `workers.own.describe`: what is known of a user's module, without importing it here."""

import subprocess
import sys
from collections.abc import Sequence

import msgspec

from difftest.cases.described import Answer, Description, DescriptionRequest
from difftest.cases.layout import Mesh
from difftest.ground.errors import UsageError
from workers.isolate.zygotes import environment

MOST_SECONDS = 600.0
"""How long a description may take; it imports torch, and builds and runs the module with four rows."""


def described(source: str, meshes: Sequence[Mesh]) -> Description:
    """What is known of `source`, with the layouts of its plan on `meshes`.

    `UsageError` where it is no model that can be compared, or this Python has no torch.
    """
    request = msgspec.json.encode(DescriptionRequest(source, tuple(meshes)))
    command = [sys.executable, "-P", "-m", "workers.own.describe"]
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
    answer = msgspec.json.decode(done.stdout, type=Answer)
    if answer.description is None:
        msg = f"{source}: {answer.error}"
        raise UsageError(msg)
    return answer.description
