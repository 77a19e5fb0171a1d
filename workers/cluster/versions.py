"""Whether a run was made with the packages whose versions define its campaign."""

from difftest.ground import installed
from difftest.ground.errors import InfrastructureError
from difftest.ground.plugins import IN
from difftest.judge.outcome import Outcome
from workers.cluster.environments import Environment


def require_versions(outcome: Outcome, backend: str, environment: Environment) -> None:
    """Raises `InfrastructureError` where a run had another version of a package than the driver.

    A backend whose environment has a Python of its own, or is part of its name, may have other versions.
    """
    if environment.python or IN in backend:
        return
    for package, version in installed.versions(*installed.COMPUTING).items():
        actual = outcome.environment.get(package, version)
        if _public(actual) != _public(version):
            msg = (
                f"{backend} ran with {package} {actual}; the campaign is defined by {version}: install that "
                "on the worker, or give the backend an environment with a `python` of its own"
            )
            raise InfrastructureError(msg)


def _public(version: str) -> str:
    """A version without its local part, which says how a package was built: `2.9.0` for `2.9.0+cpu`."""
    return version.partition("+")[0]
