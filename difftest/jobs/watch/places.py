"""Where a release is: in this Python, in an environment that was made, or in one that is made now."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from difftest.ground import installed, made_environments
from difftest.jobs.installed import pythons
from difftest.jobs.installed.environments import make_of
from difftest.jobs.installed.recipes import everything, of_release
from difftest.jobs.watch.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePython:
    """The Python of a release. `environment` is the name of its environment; empty for this one."""

    python: str
    environment: str = ""


def place(release: Release, say: Callable[[str], None], address: str = "") -> ReleasePython:
    """Where a release is; its environment is made where there is none, and `say` announces that.

    `address` is that of a further package index. `InfrastructureError` where it cannot be made.
    """
    if (installed.version(release.package) or "").partition("+")[0] == release.version:
        return ReleasePython(python=sys.executable)
    for name in made_environments.names():
        if f"{release.package}=={release.version}" in made_environments.requirements(
            made_environments.home() / name
        ):
            return ReleasePython(python=str(made_environments.python(name)), environment=name)
    name, chosen = of_release(release.recipe, release.version, address)
    folder = made_environments.home() / name

    def announce() -> None:
        with_python = pythons.announced(chosen.python)
        say(
            f"makes the environment {name}: {', '.join(chosen.requirements)}"
            f"{f', with {with_python}' if with_python else ''}; about {chosen.gibibytes} GiB in {folder}"
        )

    python = make_of(chosen, folder, everything(chosen), announce, address)
    return ReleasePython(python=str(python), environment=name)
