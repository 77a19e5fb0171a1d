"""An optimizer's `foreach` or `fused` implementation.

Equal to one tensor after another, each operator of its own.
"""

from workers.training.features import Hooks, Options


def hooks(options: Options) -> Hooks:
    """As torch's argument of that name."""
    return Hooks(arguments={str(options["kind"]): True})


def equal(_options: Options) -> Hooks:
    """The implementation that loops."""
    return Hooks(arguments={"foreach": False})
