"""Environment variables for the time of a call."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def set_to(values: Mapping[str, str]) -> Iterator[None]:
    """Sets these variables and puts them back; what else is set meanwhile stays, as frameworks set theirs when they are imported."""
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
