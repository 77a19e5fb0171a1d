"""A case as a JSON file of its own."""

from pathlib import Path

import msgspec

from difftest.cases.case import Case
from difftest.ground.errors import DamagedError, UsageError
from difftest.records import read_limits
from difftest.records.disk import cannot_read, replace_file


def read_case(file: Path) -> Case:
    """The case in `file`; `UsageError` naming the file where there is none or it cannot be read.

    That is a `DamagedError` where there is none, or its content is not a case.
    """
    try:
        return Case.from_json(read_limits.read(file, read_limits.MOST_CASE_BYTES))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        msg = f"cannot read {str(file)!r}: {error.strerror}"
        raise DamagedError(msg) from error
    except OSError as error:
        raise cannot_read(file, error) from error
    except UsageError as error:
        msg = f"{file}: {error}"
        raise type(error)(msg) from error


def write_case(file: Path, case: Case) -> None:
    """Writes a case as indented JSON."""
    replace_file(file, msgspec.json.format(case.to_json(), indent=2) + b"\n")
