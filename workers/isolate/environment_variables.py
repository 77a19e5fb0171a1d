"""Environment variables that are set for the time of a call."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


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
