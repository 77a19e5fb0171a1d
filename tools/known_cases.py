"""Collects cases of known faults from campaigns, for the files of `difftest/findings/known/`.

    python tools/known_cases.py runs/nightly runs/first

Each folder is an --out. For every fault that the ledger knows, the simplest case that showed it is kept;
one in the fault's file is replaced only by a simpler one. Prints what has no case yet.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT)]

from difftest.cases.case import Case  # noqa: E402  found on the path above
from difftest.findings.faults import KNOWN, known  # noqa: E402
from difftest.findings.known_cases import read_known_cases  # noqa: E402
from difftest.findings.ledger import entries  # noqa: E402
from difftest.ground.counted import counted  # noqa: E402
from difftest.records.corpus import CORPUS, Corpus  # noqa: E402
from difftest.reduce.measure import measure  # noqa: E402
from tools.explained import explained  # noqa: E402

EXAMPLE = "\n[[examples]]\ncase = "


def main(folders: Sequence[Path], known_faults: Path = KNOWN) -> None:
    """Updates the files of a folder of faults."""
    faults = known(known_faults)
    best = dict[str, list[Case]]()
    for one in read_known_cases(faults):
        best.setdefault(one.name, []).append(one.read())
    names = {entry.upstream: fault.name for fault in reversed(faults) for entry in entries(fault)}
    for folder in folders:
        for _, case, entry in explained(Corpus(folder / CORPUS)):
            name = names.get(entry.upstream, "")
            there = best.get(name, [])
            if name and all(measure(case) < measure(one) for one in there):
                best[name] = [case]
                write(known_faults / f"{name}.toml", case)
    lacking = [fault.name for fault in faults if fault.shows and fault.name not in best]
    print(f"{counted(sum(map(len, best.values())), 'case')}; without one:", *lacking, sep="\n  ")


def write(file: Path, case: Case) -> None:
    """Writes the case into the file of its fault, in place of those that it has."""
    text = file.read_text().partition(EXAMPLE)[0]
    file.write_text(f"{text.rstrip()}\n{EXAMPLE}'{case.to_json().decode()}'\n")


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
