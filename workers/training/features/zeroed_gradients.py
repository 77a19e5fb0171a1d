"""`zero_grad(set_to_none=False)`: gradients are zero, and the next backward adds to them.

Equal to dropping them.
"""

from workers.training.features import Hooks, Options


def hooks(_options: Options) -> Hooks:
    """As torch's argument of that name."""
    return Hooks(zero={"set_to_none": False})


def equal(_options: Options) -> Hooks:
    """Torch's default."""
    return Hooks()
