"""The index of a checkpoint that is stored in several files, as Hugging Face writes it."""

import json
from collections.abc import Iterator
from pathlib import Path

from difftest.ground.errors import UsageError


def listed(index: Path) -> Iterator[Path]:
    """The files that an index names, which lie beside it; `UsageError` where it is none, or lacks one."""
    try:
        names = sorted({*json.loads(index.read_bytes())["weight_map"].values()})
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        msg = f"cannot read the index {str(index)!r}: it needs a 'weight_map' of files by tensor"
        raise UsageError(msg) from error
    for name in names:
        file = index.parent / str(name)
        if file.name != name or not file.is_file():
            msg = f"the index {str(index)!r} names {name!r}, which is no file beside it"
            raise UsageError(msg)
        yield file
