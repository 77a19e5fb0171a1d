"""A block that only the last of some forward passes uses."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(options: Options, _training: Training) -> Spelled:
    """In the others it is the identity."""
    return Spelled(
        built=(
            "passes = []",
            f"block = model.get_submodule({python(options['block'])})",
            "",
            "def skipping(x, forward=block.forward):",
            "    passes.append(None)",
            f"    return forward(x) if len(passes) % {python(options['parts'])} == 0 else x",
            "",
            "block.forward = skipping",
        )
    )
