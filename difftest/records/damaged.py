"""Setting damaged records of a corpus aside, so that one costs only itself and not the whole corpus.

A finding whose `finding.json` or `case.json` cannot be read is moved, with its folder, to `<corpus>/damaged`;
so is a reduced case alone. An unreadable line of `observations/<campaign>.jsonl` goes to
`observations/<campaign>.jsonl.damaged`. A record that a newer version wrote is not damaged: it stops the
command.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from difftest.ground.errors import DamagedError
from difftest.records.case_files import read_case
from difftest.records.corpus import DAMAGED, REDUCED, Corpus
from difftest.records.disk import append, keep_ranges, move_aside, writing
from difftest.records.index import parts
from difftest.records.observation import Line
from difftest.records.resume import is_running


@dataclass(frozen=True, slots=True)
class DamagedRecord:
    """A damaged record: why it cannot be read, and where it is now.

    `kept` is None for a line of a campaign that another process is running: it stays there, and is skipped.
    """

    reason: str
    kept: Path | None


def set_aside(corpus: Corpus) -> tuple[DamagedRecord, ...]:
    """Reads every record of `corpus`, and sets the damaged ones aside.

    So a campaign fails before its first run and not after its last where something cannot be read.
    `UsageError` where a record is too new or is not accessible, or something in the corpus is a link;
    `InfrastructureError` where a damaged record cannot be moved.
    """
    corpus.refuse_links()
    damages = [damage for name in corpus.fingerprints() for damage in _of_finding(corpus, name)]
    damages += [damage for file in corpus.files_of_lines() for damage in _of_lines(corpus, file)]
    return tuple(damages)


def _of_finding(corpus: Corpus, fingerprint: str) -> Iterator[DamagedRecord]:
    """Sets aside a finding or its reduced case if it is damaged."""
    folder = corpus.root / fingerprint
    place = corpus.root / DAMAGED / fingerprint
    try:
        finding = corpus.finding(fingerprint)
        corpus.case(fingerprint)
    except DamagedError as error:
        yield _moved(corpus, error, folder, place)
        return
    reduced = folder / REDUCED
    try:
        if finding.reduced and reduced.is_file():
            read_case(reduced)
    except DamagedError as error:
        yield _moved(corpus, error, reduced, place.with_name(f"{fingerprint}.{REDUCED}"))


def _moved(corpus: Corpus, error: DamagedError, path: Path, place: Path) -> DamagedRecord:
    with corpus.locked(), writing(place):
        kept = move_aside(path, place) if path.exists() else place  # another process was faster
        return DamagedRecord(str(error), kept)


def _of_lines(corpus: Corpus, file: Path) -> list[DamagedRecord]:
    """Moves the damaged lines of one campaign's file to a file beside it.

    Who runs the campaign may be appending to the file, which must not be replaced meanwhile.
    """
    if not any(part.unreadable for part in parts(file)):
        return []
    kept = file.with_name(f"{file.name}.{DAMAGED}")
    with corpus.locked():
        damaged, end = list[Line](), 0
        for part in parts(file):
            damaged += part.unreadable
            end = part.end
        if is_running(corpus, file.stem):
            return [DamagedRecord(f"{line.run}", None) for line in damaged]
        append(kept, b"".join(line.text + b"\n" for line in damaged))
        with writing(file):
            starts, ends = [0, *(line.end for line in damaged)], [*(line.start for line in damaged), end]
            keep_ranges(file, [each for each in zip(starts, ends, strict=True) if each[0] < each[1]])
    return [DamagedRecord(f"{line.run}", kept) for line in damaged]
