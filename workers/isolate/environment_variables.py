"""Environment variables: set for the time of a call, and passed on without secrets."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from difftest.credentials import is_secret


@contextmanager
def set_to(values: Mapping[str, str]) -> Iterator[None]:
    """Sets these variables inside the context and restores them afterwards.

    Other variables that are set meanwhile stay, since frameworks set variables when they are imported.
    """
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def without_secrets(variables: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The variables whose names do not say that they are secret, and whose values are no URLs with passwords.

    A framework that prints its environment then prints no secret.
    """
    return {name: value for name, value in variables if not is_secret(name, value)}
