"""Working directories that somebody prepared to run code, or to decide what counts: a function writes each.

Whatever of them runs leaves the file `ran`.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from machines import Machine, a_campaign, examined, sharded, the_finding
from msgspec.structs import replace
from own_models import own_case

from difftest.ground import sources
from difftest.jobs.installed.environments import COMPANIONS, Environments
from difftest.records.corpus import SCRIPT
from difftest.records.disk import replace_file

RAN, FINDING = "ran", "FINDING"
PLANTED = "__import__('pathlib').Path({!r}).touch()\n"
MODULES = (
    "torch",
    "numpy",
    "msgspec",
    "click",
    "ray",
    "difftest",
    "workers",
    "sitecustomize",
    "usercustomize",
)

Arguments: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """How a folder is made, the command that is run in it, and what it must say; empty where anything."""

    make: Callable[[Path], object]
    command: Arguments
    says: str = ""
    statuses: tuple[int, ...] = (2,)


def planted(folder: Path) -> str:
    """Python that leaves the file."""
    return PLANTED.format(str(folder / RAN))


def written(name: str, text: str) -> Callable[[Path], object]:
    """A folder with one file; {folder} in its text is the folder."""
    return lambda folder: (folder / name).write_text(text.replace("{folder}", str(folder)))


def deciding(option: str, value: str, command: Arguments) -> Mapping[str, Folder]:
    """A default of an option that no file may set: for all commands, for one, and in the project's file."""
    name, says = str(command[0]), f"option {option!r} decides what runs or what counts"
    texts = {
        f"{option} in difftest.toml": ("difftest.toml", f"{option} = {value}\n"),
        f"{option} of {name}": ("difftest.toml", f"[{name}]\n{option} = {value}\n"),
        f"{option} in pyproject.toml": ("pyproject.toml", f"[tool.difftest.{name}]\n{option} = {value}\n"),
    }
    return {
        what: Folder(make=written(*file), command=command, says=f"{file[0]}: {says}")
        for what, file in texts.items()
    }


def odd_defaults(value: str) -> Folder:
    """Defaults that are no values of the options."""
    return Folder(make=written("difftest.toml", value), command=("run", "--out", "out"))


def linked(target: str) -> Callable[[Path], object]:
    """A file of defaults that is a link."""
    return lambda folder: (folder / "difftest.toml").symlink_to(target)


def of_bytes(content: bytes) -> Callable[[Path], object]:
    """A file of defaults that is no text."""
    return lambda folder: (folder / "difftest.toml").write_bytes(content)


def arguments(folder: Path, command: Arguments) -> list[str]:
    """The arguments of a command, with the folder of the finding in place of `FINDING`."""
    made = next((str(file.parent) for file in folder.glob("corpus/*/finding.json")), FINDING)
    return [str(one).replace(FINDING, made) for one in command]


def a_finding(folder: Path) -> Path:
    """The folder of a finding that another user's campaign made, with a script; `FINDING` in a command."""
    campaign = a_campaign(folder / "corpus", Machine(spmd=sharded))
    examined(campaign)
    made = folder / "corpus" / the_finding(campaign).fingerprint
    (made / SCRIPT).write_text(planted(folder))
    return made


def a_finding_of_a_module(folder: Path) -> None:
    """A finding whose case runs `model.py` of the working directory."""
    made = a_finding(folder)
    case = module(folder)
    replace_file(made / "case.json", case)


def module(folder: Path) -> bytes:
    """A planted `model.py`, and the text of a case that runs it."""
    case = own_case(folder)
    file = folder / "model.py"
    file.write_text(planted(folder) + file.read_text())
    layer = replace(case.model.layers[0], files={"model.py": sources.digest(file)})
    return replace(case, model=replace(case.model, layers=(layer,))).to_json()


def a_case_of_a_module(folder: Path) -> None:
    """`case.json`, which runs `model.py`."""
    (folder / "case.json").write_bytes(module(folder))


def a_case_of_a_package(folder: Path) -> None:
    """`case.json`, which runs a package in `src`."""
    text = json.loads(module(folder))
    (folder / "src" / "pack").mkdir(parents=True)
    file = folder / "src" / "pack" / "__init__.py"
    file.write_text((folder / "model.py").read_text())
    layer = text["model"]["layers"][0]
    layer |= {"source": "pack:build", "files": {"src/pack/__init__.py": sources.digest(file)}}
    (folder / "case.json").write_text(json.dumps(text))


def an_environment(folder: Path) -> None:
    """Complete environments where difftest once kept its own, and a finding with a script."""
    a_finding(folder)
    for root in (folder / "runs" / "environments", folder / "bisect", folder / "environments"):
        for package in ("torch_xla", "torch"):
            made = Environments(root=root, package=package, companions=COMPANIONS[package])
            for version in ("2.8.0", "2.9.0"):
                place = root / f"{package}-{version}"
                (place / "bin").mkdir(parents=True)
                (place / "made").write_text("\n".join(made.requirements(version)))
                python = place / "bin" / "python"
                python.write_text(f'#!/bin/sh\ntouch {folder / RAN}\nexec {sys.executable} "$@"\n')
                python.chmod(0o755)


def modules(folder: Path) -> None:
    """Modules with the names of those that difftest imports, and of those that Python imports by itself."""
    for name in MODULES:
        (folder / f"{name}.py").write_text(planted(folder))
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(planted(folder))
    (folder / "conftest.py").write_text(planted(folder))
    (folder / "python.pth").write_text(f"import os; {planted(folder)}")
    (folder / "case.json").touch()


def a_pipe(folder: Path) -> None:
    """A file of defaults that never answers."""
    os.mkfifo(folder / "difftest.toml")


BISECT = ("bisect", FINDING, "--versions", "2.8.0,2.9.0", "--times", 1)
RUN, REPLAY = ("run", "--out", "out"), ("replay", "case.json")
NEVER_RAN = "of the working directory, which you never ran"
NOT_MADE = "is not a finding that difftest made for you"

FOLDERS: Mapping[str, Folder] = {
    **deciding("trust", "true", BISECT),
    **deciding("environments", '"planted"', BISECT),
    **deciding("python", '"planted"', BISECT),
    **deciding("package", '"evil"', BISECT),
    **deciding("with", '["evil"]', BISECT),
    **deciding("jax-python", '"planted"', ("reproducer", FINDING)),
    **deciding("model", '"model.py:build"', RUN),
    **deciding("address", '"ray://evil:1"', RUN),
    **deciding("known", '"ledger.toml"', RUN),
    **deciding("fail-on", '"never"', RUN),
    **deciding("least-compared", "0.0", RUN),
    **deciding("most-inconclusive", "1.0", RUN),
    **deciding("date", '"2020-01-01"', ("nightly", "--out", "out")),
    **deciding("acknowledge", "true", ("triage", "corpus")),
    "a planted script": Folder(make=a_finding, command=BISECT, says="is not a script that difftest wrote"),
    "a planted script by its name": Folder(
        make=a_finding,
        command=("bisect", f"{FINDING}/{SCRIPT}", *BISECT[2:]),
        says="is not a script that difftest",
    ),
    "a stranger's finding": Folder(make=a_finding, command=("reproducer", FINDING), says=NOT_MADE),
    "a stranger's finding to file": Folder(make=a_finding, command=("file", FINDING), says=NOT_MADE),
    "planted interpreters": Folder(make=an_environment, command=(*BISECT, "--trust"), statuses=(1,)),
    "a module of a case": Folder(make=a_case_of_a_module, command=REPLAY, says=NEVER_RAN),
    "a package of a case": Folder(make=a_case_of_a_package, command=REPLAY, says=NEVER_RAN),
    "a module to minimize": Folder(
        make=a_case_of_a_module, command=("minimize", "case.json", "--backend", "torch_ddp"), says=NEVER_RAN
    ),
    "a module to record": Folder(
        make=a_case_of_a_module,
        command=("record", "case.json", "--backends", "torch_ddp", "--out", "bundle"),
        says=NEVER_RAN,
    ),
    **{
        f"a module of a finding, by {name}": Folder(
            make=a_finding_of_a_module,
            command=(name, FINDING if name != "triage" else "corpus"),
            says=NEVER_RAN,
        )
        for name in ("replay", "minimize", "ablate", "reproducer", "triage")
    },
    "defaults of wrong types": odd_defaults("cases = 1979-05-27\nbudget = 10\nbackends = 3\n"),
    "defaults of nothing": odd_defaults("cases = []\n"),
    "a default that is a list": odd_defaults("[run]\nseed = [1, [2]]\n"),
    "a default that is no number": odd_defaults("[run]\nworkers = nan\n"),
    "a table in a table": odd_defaults("[run.cases]\nx = 1\n"),
    "a deep file": odd_defaults("cases = " + "[" * 100_000),
    "deep tables": odd_defaults("[" + "a." * 50_000 + "a]\n"),
    "commands to the terminal": odd_defaults('"\\u001b]0;title\\u0007" = 1\n'),
    "an option of Python's": odd_defaults("__class__ = 1\n"),
    "no text": Folder(make=of_bytes(b"\xff\xfe\x00cases"), command=RUN),
    "a link to itself": Folder(make=linked("difftest.toml"), command=("list",), statuses=(0, 2, 3)),
    "a link to a device": Folder(make=linked("/dev/zero"), command=("list", "out"), statuses=(0, 2)),
    "a pipe": Folder(make=a_pipe, command=("list", "out"), statuses=(0, 2)),
    "a folder for a file": Folder(
        make=lambda folder: (folder / "difftest.toml").mkdir(), command=("list", "out"), statuses=(0, 2)
    ),
}
"""By what is hostile in them."""
