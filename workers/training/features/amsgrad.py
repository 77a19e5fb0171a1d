"""The argument `amsgrad` of Adam and AdamW.

Equal to itself in the implementation that loops: the formula has no shorter form.
"""

from workers.training.features import Hooks, Options


def hooks(_options: Options) -> Hooks:
    """As torch's argument of that name."""
    return Hooks(arguments={"amsgrad": True})


def equal(_options: Options) -> Hooks:
    """One tensor after another."""
    return Hooks(arguments={"amsgrad": True, "foreach": False})
