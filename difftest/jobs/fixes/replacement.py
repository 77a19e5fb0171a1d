"""Where a fix is: an environment, a release, a wheel, or a patch of Python files laid over an environment."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from difftest.ground import made_environments
from difftest.ground.errors import InfrastructureError, UsageError
from difftest.jobs.installed.environments import make_of
from difftest.jobs.installed.recipes import everything, of_release
from difftest.jobs.watch.places import place
from difftest.jobs.watch.releases import parsed

ALLOWED = (
    "an environment, a release as torch==2.15.0, a wheel (.whl), or a patch of Python files (.patch, .diff)"
)
HERE = "here"
"""What names this Python as the environment."""

PATCH_SECONDS = 60.0
DIGEST_LENGTH = 8
_PATCHED = re.compile(r"^\+\+\+ (?:b/)?(?P<path>\S+)", re.MULTILINE)
_MADE_BY_VENV = ("pyvenv.cfg", "bin", "lib", "lib64", "include")


def environment(named: str, over: str, say: Callable[[str], None]) -> str:
    """The name of the environment that has the fix, made where it is not there; empty for this Python.

    A patch is laid over the environment `over`, and a wheel takes its package's place in the recipe of that
    package. `UsageError` for anything else than `ALLOWED`.
    """
    file = Path(named)
    if named == HERE:
        return ""
    if file.suffix == ".whl":
        return _of_wheel(file, say)
    if file.suffix in {".patch", ".diff"}:
        return _of_patch(file, over, say)
    if named in made_environments.names():
        return named
    if "==" in named:
        return place(parsed(named), say).environment
    msg = f"no environment is called {named!r}; allowed: {ALLOWED}, or {HERE!r}"
    raise UsageError(msg)


def _of_wheel(file: Path, say: Callable[[str], None]) -> str:
    """An environment in which the wheel's package is that wheel."""
    try:
        package, version, *_ = parse_wheel_filename(file.name)
        content = file.read_bytes()
    except (InvalidWheelFilename, OSError) as error:
        msg = f"wheel {str(file)!r} cannot be used: {error}"
        raise UsageError(msg) from error
    name, chosen = of_release(parsed(f"{package.replace('-', '_')}=={version.public}").recipe, version.public)
    called = f"{name}_{sha256(content).hexdigest()[:DIGEST_LENGTH]}"
    own = f"{package.replace('-', '_')}=="
    requirements = tuple(
        str(file.resolve()) if requirement.startswith(own) else requirement
        for requirement in everything(chosen)
    )
    words = f"makes the environment {called}: {', '.join(chosen.requirements)}, with {file}"
    make_of(chosen, made_environments.home() / called, requirements, lambda: say(words))
    return called


def _of_patch(file: Path, over: str, say: Callable[[str], None]) -> str:
    """A copy of the environment `over` with the patch applied; files that it does not change are links.

    Python files that no package has, such as the tests of a pull request, are left out.
    """
    try:
        text = file.read_text()
    except (OSError, UnicodeError) as error:
        msg = f"patch {str(file)!r} cannot be read: {error}"
        raise UsageError(msg) from error
    patched = _PATCHED.findall(text)
    if not patched or not all(map(_is_of_package, patched)):
        names = ", ".join(patched) or "nothing"
        msg = f"patch {str(file)!r} changes {names}; allowed: Python files of packages"
        raise UsageError(msg)
    packages = _packages(_root(over))
    others = [name for name in patched if not (packages / Path(name).parts[0]).exists()]
    if len(others) == len(patched):
        msg = f"patch {str(file)!r} changes no file of a package in {packages}, only {', '.join(patched)}"
        raise UsageError(msg)
    digest = sha256((over + text).encode()).hexdigest()[:DIGEST_LENGTH]
    called = f"patched_{digest}"
    folder = made_environments.home() / called
    if made_environments.python(called) is None:
        without = f", without {', '.join(others)}, which no package has" if others else ""
        say(f"makes the environment {called}: {over or 'this one'} with {file}{without}")
        _copy(_root(over), folder)
        _apply(file.resolve(), folder, others)
        (folder / made_environments.COMPLETE).write_text("\n".join((over or HERE, str(file.resolve()))))
    return called


def _is_of_package(name: str) -> bool:
    path = Path(name)
    return path.suffix == ".py" and not path.is_absolute() and ".." not in path.parts


def _root(over: str) -> Path:
    """The folder of an environment; of this Python's own, which must be one."""
    if over:
        return made_environments.home() / over
    if sys.prefix == sys.base_prefix:
        msg = f"{sys.executable} is no environment of its own, so no patch can be laid over it; give --before"
        raise UsageError(msg)
    return Path(sys.prefix)


def _copy(source: Path, folder: Path) -> None:
    """A copy of an environment whose files are hard links, or copies where there can be none."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in _MADE_BY_VENV:
        part = source / name
        if part.is_symlink():
            (folder / name).symlink_to(part.readlink())
        elif part.is_dir():
            shutil.copytree(part, folder / name, symlinks=True, copy_function=_linked)
        elif part.is_file():
            folder.mkdir(exist_ok=True)
            shutil.copy2(part, folder / name)


def _linked(source: str, copy: str) -> None:
    try:
        os.link(source, copy)
    except OSError:  # another disk
        shutil.copy2(source, copy)


def _packages(folder: Path) -> Path:
    return next(folder.glob("lib/python*/site-packages"))


def _apply(patch: Path, folder: Path, others: Iterable[str]) -> None:
    """Applies a patch to the packages of an environment, but for the files `others`.

    Git writes new files, so links stay as they are.
    """
    packages = _packages(folder)
    command = ["git", "apply", "-p1", *(f"--exclude={name}" for name in others), str(patch)]
    try:
        done = subprocess.run(  # noqa: S603  git itself
            command,
            cwd=packages,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATCH_SECONDS,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(packages.resolve().parent)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        msg = f"cannot apply {str(patch)!r}: {error}"
        raise InfrastructureError(msg) from error
    if done.returncode:
        shutil.rmtree(folder)
        msg = f"patch {str(patch)!r} does not fit the packages of the environment: {done.stderr.strip()}"
        raise UsageError(msg)
    for cached in {
        packages / Path(name).parent / "__pycache__" for name in _PATCHED.findall(patch.read_text())
    }:
        shutil.rmtree(cached, ignore_errors=True)
