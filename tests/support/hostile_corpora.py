"""Attacks on the folder of a campaign, and on a bundle, as somebody who made them could prepare them.

An attack is a function of a random generator, the folder to attack, and a folder beside it that nothing may
write to. It leaves the folder in any state.
"""

import json
import os
import shutil
import socket
import stat
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import mutated_cases
import mutations
import numpy as np

from difftest.records.corpus import (
    ARTIFACTS,
    CORPUS,
    DAMAGED,
    FINDING,
    LOCK,
    OBSERVATIONS,
    OUTPUT,
    REDUCED,
    SCRIPT,
)

Attack: TypeAlias = Callable[[Random, Path, Path], object]

ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\r\n::error::<script>alert(1)</script>`|@all\udcff"
CANARY = "import pathlib\npathlib.Path({!r}).touch()\n"
"""A script that leaves a file."""

FEATURES: dict[str, dict[str, object]] = {
    "save_and_load": {"step": 1},
    "gradient_scaler": {"step": 1},
    "implementation": {"kind": "foreach"},
    "schedule": {"kind": "step", "factor": 0.5},
    "frozen": {"name": "0.weight"},
    "evaluation": {},
}
"""Features with options that are right."""

MODULES = ("numpy", "torch", "msgspec", "pip", "venv", "sitecustomize", "conftest", "difftest", "workers")
NUMBERS = ("1e999", "-1e999", "NaN", "Infinity", "1" * 400, "-0.0", "1e-400", "9223372036854775808", "0x10")
PATHS = (
    "../../escaped",
    "/proc/self/mem",
    "..",
    "",
    "a/b",
    "\x00",
    "x" * 5000,
    ESCAPES.replace("\udcff", ""),
)


def _files(rng: Random, root: Path) -> Path:
    """Some file of the folder."""
    return rng.choice([file for file in sorted(root.rglob("*")) if file.is_file() and not file.is_symlink()])


def _finding(rng: Random, root: Path) -> Path:
    """The folder of some finding; of the cases of a bundle."""
    return rng.choice([file.parent for file in sorted(root.rglob(FINDING))] or [root / "cases"])


def _place(rng: Random, root: Path) -> Path:
    """A place that a command may read or write, where something may lie."""
    corpus, finding = root / CORPUS, _finding(rng, root)
    names = (
        FINDING,
        "case.json",
        REDUCED,
        SCRIPT,
        OUTPUT,
        "issue.md",
        ARTIFACTS,
        f"reduction-{finding.name}.jsonl",
    )
    runs = (f"one.jsonl.{DAMAGED}", ".one.lock", "two.jsonl", "one.json", "announced.json")
    own = (
        corpus,
        corpus / LOCK,
        corpus / DAMAGED,
        corpus / OBSERVATIONS,
        root / "report.html",
        root / "runs.jsonl",
    )
    places = (*own, *(finding / name for name in names), *(corpus / OBSERVATIONS / name for name in runs))
    return rng.choice((*places, _files(rng, root)))


def _cleared(place: Path) -> Path:
    """The place with nothing there."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def damage(rng: Random, root: Path, away: Path) -> None:
    file = _files(rng, root)
    file.write_bytes(mutations.of_file(rng, file.name, file.read_bytes()))


def empty_or_truncate(rng: Random, root: Path, away: Path) -> None:
    file = _files(rng, root)
    os.truncate(file, rng.choice((0, 1, file.stat().st_size // 2)))


def symbolic_link(rng: Random, root: Path, away: Path) -> None:
    place = _cleared(_place(rng, root))
    targets = (away / "treasure", away, away / "made", place, Path("/dev/zero"), Path("/proc/self/fd"))
    place.symlink_to(rng.choice(targets))


def hard_link(rng: Random, root: Path, away: Path) -> None:
    _cleared(_place(rng, root)).hardlink_to(away / "treasure")


def special_file(rng: Random, root: Path, away: Path) -> None:
    """A pipe or a device that never answers, or a socket."""
    place = _cleared(_place(rng, root))
    match rng.randrange(3):
        case 0:
            os.mkfifo(place)
        case 1:
            with socket.socket(socket.AF_UNIX) as server, suppress(OSError):  # the name may be too long
                server.bind(str(place))
        case _:
            with suppress(PermissionError):
                os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero


def folder_for_file(rng: Random, root: Path, away: Path) -> None:
    place = _cleared(_place(rng, root))
    place.mkdir()
    (place / FINDING).write_bytes(b"{}")


def planted_scripts(rng: Random, root: Path, away: Path) -> None:
    """Programs under all names that somebody might run or import."""
    for folder in (_finding(rng, root), root, root / CORPUS):
        folder.mkdir(exist_ok=True)
        for name in (SCRIPT, *(f"{module}.py" for module in MODULES)):
            (folder / name).write_text(CANARY.format(str(away / "ran")))
            (folder / name).chmod(0o755)
        (folder / OUTPUT).write_text(ESCAPES, errors="replace")


def forged_trust(rng: Random, root: Path, away: Path) -> None:
    """A script with everything beside it that could make it look like difftest's own."""
    planted_scripts(rng, root, away)
    for folder in (_finding(rng, root), root, root / CORPUS):
        for inner in ("difftest/scripts", ".local/state/difftest/scripts", "state/difftest/scripts"):
            _cleared(folder / inner).mkdir()
            (folder / inner / ("0" * 64)).touch()


def _json_changed(rng: Random, root: Path, change: Callable[[Any], None]) -> None:
    files = [file for file in sorted(root.rglob("*.json*")) if file.is_file() and not file.is_symlink()]
    file = rng.choice(files)
    with suppress(ValueError, RecursionError):  # it was damaged before
        lines = [
            json.loads(line) for line in (file.read_bytes().splitlines() if file.suffix == ".jsonl" else [])
        ]
        values = lines or [json.loads(file.read_bytes())]
        change(rng.choice(values))
        file.write_text("".join(json.dumps(value) + "\n" for value in values))


def _replaced(rng: Random, value: Any, kind: type, new: Callable[[], Any]) -> None:  # noqa: ANN401  JSON
    """Replaces some of the values of a kind, anywhere below `value`."""
    items = list(
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in items:
        if isinstance(inner, kind) and rng.random() < 0.3:
            value[key] = new()
        else:
            _replaced(rng, inner, kind, new)


def terminal_commands(rng: Random, root: Path, away: Path) -> None:
    _json_changed(rng, root, lambda value: _replaced(rng, value, str, lambda: ESCAPES.replace("\udcff", "")))


def paths_as_names(rng: Random, root: Path, away: Path) -> None:
    _json_changed(
        rng,
        root,
        lambda value: _replaced(rng, value, str, lambda: rng.choice((*PATHS, str(away / "escaped")))),
    )


def wrong_types(rng: Random, root: Path, away: Path) -> None:
    _json_changed(rng, root, lambda value: _replaced(rng, value, object, lambda: rng.choice(mutations.WEIRD)))


def code_as_values(rng: Random, root: Path, away: Path) -> None:
    """What would be code if it were pasted into a script, as a value or as a key of a case or a finding."""
    _json_changed(
        rng, root, lambda value: _replaced(rng, value, object, lambda: rng.choice(mutated_cases.PAYLOADS))
    )


def code_as_options(rng: Random, root: Path, away: Path) -> None:
    """Features of training, in every case, whose options hold what would be code."""
    for file in sorted(root.rglob("*.json")):
        with suppress(ValueError, OSError, RecursionError):  # it was damaged before, or is no file
            case = json.loads(file.read_bytes())
            if isinstance(case, dict) and "training" in case:
                used = rng.sample(tuple(FEATURES), 2)
                case["features"] = [{"name": name, "options": _options(rng, name)} for name in used]
                case["training"] |= {"steps": 3}
                file.write_text(json.dumps(case))


def _options(rng: Random, name: str) -> dict[str, object]:
    """The options of a feature, of which one may hold code, or be called by it."""
    options = dict(FEATURES[name])
    if options and rng.random() < 0.8:
        options[rng.choice(tuple(options))] = rng.choice(mutated_cases.PAYLOADS)
    if rng.random() < 0.2:
        options[rng.choice(mutated_cases.PAYLOADS)] = 1
    return options


def odd_numbers(rng: Random, root: Path, away: Path) -> None:
    """Numbers that JSON's readers disagree about, and that no type holds."""
    file = _files(rng, root)
    if file.suffix in {".json", ".jsonl"}:
        pieces = file.read_bytes().split(b": " if file.suffix == ".json" else b":")
        at = rng.randrange(len(pieces))
        digits = len(pieces[at]) - len(pieces[at].lstrip(b"-0123456789."))
        pieces[at] = rng.choice(NUMBERS).encode() + pieces[at][digits:]
        file.write_bytes(b": ".join(pieces))


def nesting(rng: Random, root: Path, away: Path) -> None:
    deep = rng.choice(
        (b"[" * 10**6, b'{"a":' * 10**5, b"[" * 10**5 + b"]" * 10**5, b'{"schema": ' + b"[" * 10**5)
    )
    _files(rng, root).write_bytes(deep + rng.choice((b"", b"\n")))


def surrogates(rng: Random, root: Path, away: Path) -> None:
    file = _files(rng, root)
    file.write_bytes(
        file.read_bytes().replace(b'"', rng.choice((b'"\\ud800', b'"\xed\xa0\x80', b'"\xff')), 3)
    )


def odd_names(rng: Random, root: Path, away: Path) -> None:
    """Files whose names hold line ends, commands of terminals and bytes that are no text."""
    for folder in (
        _finding(rng, root) / ARTIFACTS,
        root / CORPUS / OBSERVATIONS,
        root / CORPUS,
        root / CORPUS / DAMAGED,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        for name in (ESCAPES.replace("/", "_"), ESCAPES.replace("/", "_") + ".jsonl", "graph0.stablehlo.txt"):
            (folder / name).write_bytes(rng.choice((b"", b"{}\n", b"{", b"\x1b[2J\n")))


def foreign_index(rng: Random, root: Path, away: Path) -> None:
    """Files that look like the index of a campaign's lines, made elsewhere."""
    for lines in (root / CORPUS / OBSERVATIONS).glob("*.jsonl"):
        size, key = lines.stat().st_size, f"{rng.getrandbits(128):032x}"
        index = f".{lines.stem}.index.{key}"
        lines.with_name(f"{index}.0-{size}.3.{key}.npz").write_bytes(_files(rng, root).read_bytes())
        lines.with_name(f"{index}.checked").write_bytes(rng.choice((b"", ESCAPES.encode(errors="replace"))))


def huge_folder(rng: Random, root: Path, away: Path) -> None:
    folder = rng.choice((root / CORPUS, root / CORPUS / OBSERVATIONS, _finding(rng, root)))
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(2000):
        name = rng.choice((f"spmd-a-b-{number:08x}", f"{number}.jsonl", f"{number}"))
        (folder / name).mkdir(exist_ok=True) if number % 2 else (folder / name).touch()


def bomb(rng: Random, root: Path, away: Path) -> None:
    """A small file that stands for much: compressed arrays, or a file with a hole."""
    arrays = [file for file in sorted(root.rglob("*.npz")) if file.is_file()]
    if arrays and rng.random() < 0.7:
        file = rng.choice(arrays)
        method = rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED))
        with zipfile.ZipFile(file, "a", method) as packed, packed.open("more.npy", "w") as entry:
            np.save(entry, np.zeros(2 * 10**6, np.float16))
    else:
        os.truncate(_files(rng, root), 3 * 10**7)


def made_of_parts_of_others(rng: Random, root: Path, away: Path) -> None:
    """A file with the content of another one."""
    _files(rng, root).write_bytes(_files(rng, root).read_bytes())


ATTACKS: tuple[Attack, ...] = (
    *(damage, empty_or_truncate, symbolic_link, hard_link, special_file, folder_for_file, planted_scripts),
    *(
        forged_trust,
        terminal_commands,
        paths_as_names,
        wrong_types,
        code_as_values,
        code_as_options,
        odd_numbers,
        nesting,
        surrogates,
        odd_names,
        foreign_index,
    ),
    *(huge_folder, bomb, made_of_parts_of_others),
)


def attacked(rng: Random, root: Path, away: Path) -> list[str]:
    """Attacks the folder in one to three ways, of which it returns the names.

    An attack that an earlier one made impossible, because there is nothing to change any more, is left out.
    """
    names = []
    for attack in rng.choices(ATTACKS, k=rng.choice((1, 1, 1, 2, 3))):
        with suppress(OSError, IndexError, ValueError):
            attack(rng, root, away)
            names.append(attack.__name__)
    return names
