"""What the backward pass needs is kept on the host."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(_options: Options, _training: Training) -> Spelled:
    """Around the forward of the whole module."""
    return Spelled(
        built=(
            "def saving(x, forward=model.forward):",
            "    with torch.autograd.graph.save_on_cpu():",
            "        return forward(x)",
            "",
            "model.forward = saving",
        )
    )
