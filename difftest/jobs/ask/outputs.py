"""The output folders of this user's last campaigns, in which commands look for a finding's id."""

from contextlib import suppress
from pathlib import Path

from difftest.ground.state_folder import state_folder
from difftest.records.disk import replace_file

FILE = "outputs"
MOST = 20
"""How many folders are kept, the last ones."""


def remember(folder: Path) -> None:
    """Keeps a campaign's folder as the last one; where nothing can be written, nothing is kept."""
    file, own = state_folder(FILE), str(folder.resolve())
    if "\n" in own:
        return
    kept = [own, *(str(other) for other in remembered() if str(other) != own)][:MOST]
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, "\n".join(kept).encode())


def remembered() -> list[Path]:
    """The folders, the last one first."""
    try:
        lines = state_folder(FILE).read_text().splitlines()
    except (OSError, UnicodeError):
        return []
    return [Path(line) for line in lines if line]
