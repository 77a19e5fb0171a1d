"""Ray's token authentication, which every cluster must have: without it, whoever reaches a port runs code.

An instance that difftest starts gets a token of its own, which only this process and what it starts know. A
cluster that is joined must refuse those without a token; Ray itself joins and serves open ones silently.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ray import _raylet

from difftest.ground.errors import InfrastructureError, UsageError
from workers.isolate import environment_variables

MODE, TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
"""Ray's variables for the mode of authentication (`token` or `disabled`) and for the token itself."""

OPEN_VARIABLE = "DIFFTEST_OPEN_CLUSTER"
"""At 1, a cluster without authentication may be joined."""

ANSWER_SECONDS = 10.0
"""How long the cluster may take to answer somebody without a token."""

STRANGER = """
import sys
from ray._raylet import GcsClient
client = GcsClient(address=sys.argv[1])
client.internal_kv_keys(b"", None, timeout=float(sys.argv[2]))
print("open")
"""


@contextmanager
def of_own_instance() -> Iterator[None]:
    """Makes Ray's instances that are started meanwhile require a new token, which this process then uses."""
    with _set({MODE: "token", TOKEN: secrets.token_hex(32)}):
        yield


@contextmanager
def of_joined_cluster() -> Iterator[None]:
    """Makes this process use the user's token in the clusters that it joins meanwhile.

    Raises `UsageError` where the user has turned authentication off, unless open clusters are allowed.
    """
    mode = os.environ.get(MODE)
    if _open_allowed():
        yield
        return
    if mode is not None and mode.lower() != "token":
        msg = f"{MODE} is {mode!r}; allowed: token, as for every Ray cluster, unless {OPEN_VARIABLE}=1"
        raise UsageError(msg)
    with _set({MODE: "token"}):
        yield


def require_authentication(address: str) -> None:
    """Raises `InfrastructureError` where the cluster at `address` answers somebody who has no token."""
    if _open_allowed():
        return
    without = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH_")}
    command = [sys.executable, "-P", "-c", STRANGER, address, str(ANSWER_SECONDS)]
    stranger = subprocess.run(  # noqa: S603  our own script
        command, env=without | {MODE: "disabled"}, capture_output=True, text=True, check=False
    )
    if stranger.stdout.strip() == "open":
        msg = (
            f"the Ray cluster at {address} takes work from anybody who reaches its port; "
            f"start it with {MODE}=token (docs/campaigns.md), or allow it with {OPEN_VARIABLE}=1"
        )
        raise InfrastructureError(msg)


def _open_allowed() -> bool:
    return os.environ.get(OPEN_VARIABLE, "0") == "1"


@contextmanager
def _set(values: dict[str, str]) -> Iterator[None]:
    with environment_variables.set_to(values):
        _reread()
        yield
    _reread()


def _reread() -> None:
    """Makes Ray read its variables again, which it has done when it was imported."""
    ray_core: Any = _raylet  # Ray's stub leaves these out
    ray_core.Config.initialize("")
    ray_core.AuthenticationTokenLoader.instance().reset_cache()
