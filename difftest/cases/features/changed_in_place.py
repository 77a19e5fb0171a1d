"""What Linear layers give is changed in place, as activations are steered by a hook that returns nothing."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.layers import walk
from difftest.cases.layers.linear import Linear

HALF = 0.5


class Options(FeatureOptions, frozen=True):
    """By a method of the tensor or of a view of it, or by a `torch.autograd.Function` that marks it as dirty.

    What the function returns is dropped, and the tensor that it changed is used. Or it is `returned`.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("own_steps",)
    CHANGES_GRADIENTS: ClassVar[bool] = True

    by: Literal["method", "view", "function", "returned"]

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A model with a Linear layer, whose backward pass needs no result of it; not traced apart."""
        linear = any(isinstance(layer, Linear) for _, layer in walk(case.model.layers))
        again = case.training.checkpointing or case.start.accumulation == "scan"
        return {"by": ("method", "view", "function", "returned")} if linear and not again else None

    def spelled(self, _training: Training) -> Spelled:
        """The function, and a hook of every Linear layer, ahead of wrappers."""
        calls = {
            "method": f"given.mul_({HALF})",
            "view": f"given.unsqueeze(0).mul_({HALF})",
            "function": "Halved.apply(given)",
            "returned": "return Halved.apply(given)",
        }
        return Spelled(
            built=(
                "class Halved(torch.autograd.Function):",
                "    @staticmethod",
                "    def forward(ctx, x):",
                f"        x.mul_({HALF})",
                "        ctx.mark_dirty(x)",
                "        return x",
                "",
                "    @staticmethod",
                "    def backward(ctx, gradient):",
                f"        return gradient * {HALF}",
                "",
                "def halved(_layer, _inputs, given):",
                f"    {calls[self.by]}",
                "",
                "for layer in model.modules():",
                "    if type(layer) is nn.Linear:",
                "        layer.register_forward_hook(halved)",
            )
        )
