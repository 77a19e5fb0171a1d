"""The argument FINDING: a path, or a part of a fingerprint that names a finding in a corpus nearby."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from difftest.ground.errors import UsageError
from difftest.jobs.ask import outputs
from difftest.judge.fingerprint import DIGEST_LENGTH
from difftest.records.corpus import CORPUS, FINDING

RUNS = "runs"
"""The folder with the output folders of campaigns, as `--out` has it by default."""

_PART = re.compile(rf"(?P<backend>[a-z0-9_.@]+-)?(?:[a-z0-9_]+-)*(?P<digest>[0-9a-f]{{{DIGEST_LENGTH}}})")
"""A fingerprint, its last characters, or one that lacks some of the words between backend and digest."""


class FindingPath(click.Path):
    """A path as it is, where something is there; else the folder of the finding that is meant."""

    name = "path"

    def __init__(self, within: str = "") -> None:
        """`within` is the parameter with the campaign's folder, where the command has one."""
        super().__init__(path_type=Path)
        self._within = within

    def convert(
        self,
        value: Any,  # noqa: ANN401  what click hands over
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path:
        """The path; wrong usage where a part of a fingerprint names no finding, or several."""
        path = super().convert(value, param, ctx)
        try:
            within = ctx.params.get(self._within) if ctx else None
            return located(Path(os.fsdecode(path)), within if isinstance(within, Path) else None)
        except UsageError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The ids of findings that begin so, and files."""
        folders = [Path(), *_children(Path(RUNS)), *outputs.remembered()]
        names = {finding.name for folder in folders for finding in _findings(folder, "", "")}
        ids = sorted(
            (name[-DIGEST_LENGTH:], name) for name in names if name[-DIGEST_LENGTH:].startswith(incomplete)
        )
        own = [CompletionItem(digest, help=name) for digest, name in ids]
        return own or super().shell_complete(ctx, param, incomplete)


def located(path: Path, within: Path | None = None) -> Path:
    """`path` where something is there or it is no part of a fingerprint; else the folder of the finding.

    The last eight characters of a fingerprint will do, or any part of it with these: `b5e730b5`,
    `torch_dtensor-b5e730b5`. The finding is looked for in the corpora of the working directory and of the
    folders in `runs`, and then in the folders of this user's last campaigns; of several corpora that hold it,
    in the one that changed last. A folder before it is that of the campaign: `runs/first/b5e730b5`; so is
    `within`. `UsageError` where there is none, or where the part is of several findings.
    """
    part = _PART.fullmatch(path.name)
    if path.exists() or not part:
        return path
    named = within or (path.parent if len(path.parts) > 1 else None)
    folders = [named] if named else [Path(), *_children(Path(RUNS))]
    wanted = part["backend"] or "", f"-{part['digest']}"
    holders = [finding for folder in folders for finding in _findings(folder, *wanted)]
    if not (holders or named):
        folders += [folder for folder in outputs.remembered() if folder.is_dir()]
        holders = [finding for folder in folders for finding in _findings(folder, *wanted)]
    names = sorted({holder.name for holder in holders})
    if not names:
        looked = ", ".join(repr(str(folder / CORPUS)) for folder in folders)
        hint = f"give its folder, or that of the campaign: {RUNS}/first/{path.name}"
        msg = f"no finding {path.name!r} in {looked}; {hint}"
        raise UsageError(msg)
    if len(names) > 1:
        msg = f"{path.name!r} is of {len(names)} findings: {', '.join(names)}; give more of one"
        raise UsageError(msg)
    return max(holders, key=lambda holder: (holder / FINDING).stat().st_mtime)


def _findings(folder: Path, backend: str, end: str) -> Iterator[Path]:
    """The folders of findings in a campaign's corpus, or in the corpus itself, that begin and end so."""
    for root in (folder / CORPUS, folder):
        for child in _children(root):
            if child.name.endswith(end) and child.name.startswith(backend) and (child / FINDING).is_file():
                yield child


def _children(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
