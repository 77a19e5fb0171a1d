"""Writes `generators/signatures.json` from what campaigns covered.

    python tools/exploration.py DIR

DIR is the --out of campaigns over generated cases. The cases are generated again by seed and index; one that
has another id now is left out, and so are programs, which have a schedule.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from difftest.records.corpus import CORPUS
from difftest.records.coverage import DISPATCHED
from difftest.records.definition import CampaignDefinition
from difftest.records.observation import Observation, read_observations
from generators import explore, signatures
from generators.cases import case_at

FILE = Path(signatures.__file__).with_name(signatures.FILE)


def main(out: Path) -> None:
    """Writes the file anew."""
    cases = [case for file in sorted((out / CORPUS).glob("*/*.jsonl")) for case in reached(file)]
    measured = signatures.signatures(cases)
    FILE.write_bytes(b"[\n" + b",\n".join(map(msgspec.json.encode, measured)) + b"\n]\n")
    print(
        f"{len(measured)} signatures of {sum(one.things for one in measured)} things from {len(cases)} cases"
    )


def reached(file: Path) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """The features of each case of a campaign, and what its comparisons reached."""
    definition = msgspec.json.decode(file.with_suffix(".json").read_bytes(), type=CampaignDefinition)
    things, ids = defaultdict[int, set[str]](set), dict[int, str]()
    for run in read_observations(file):
        things[run.index].update(_things(run))
        ids[run.index] = run.case
    for index, reached_by_case in sorted(things.items()):
        case = case_at(
            definition.seed, index, paths=definition.paths or None, max_world_size=definition.max_world_size
        )
        if case.id == ids[index] and reached_by_case and not case.model.is_program:
            yield explore.features(case), frozenset(reached_by_case)


def _things(run: Observation) -> Iterator[str]:
    """What one line says that was reached: operators of a side by direction, rules, and lowered nodes."""
    for what in DISPATCHED:
        for names in getattr(run.covered, what).values():
            yield from (f"{run.side} {what} {name}" for name in names)
    yield from (f"rule {rule}" for rule in run.covered.rules)
    yield from (f"lowered {node}" for node in run.covered.lowered)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
