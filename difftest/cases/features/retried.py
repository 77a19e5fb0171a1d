"""A step that is tried again: an exception ends the first attempt, and the program catches it."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.layers import walk
from difftest.cases.layers.linear import Linear
from difftest.cases.schema import Step
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The step, and where its first attempt fails: in a pass of the `first` or `last` linear layer.

    Every rank does. Equal to no such attempt: gradients are dropped behind it.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("own_steps",)

    step: Step
    layer: Literal["first", "last"]
    during: Literal["forward", "backward"]

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Any step but the last: a later one shows what the attempt has left."""
        linear = any(isinstance(layer, Linear) for _, layer in walk(case.model.layers))
        if case.training.steps == 1 or not linear:
            return None
        return {
            "step": range(case.training.steps - 1),
            "layer": ("first", "last"),
            "during": ("forward", "backward", "backward"),
        }

    def spelled(self, _training: Training) -> Spelled:
        """A hook of the layer raises, once."""
        hook = "full_backward_pre_hook" if self.during == "backward" else "forward_hook"
        at = 0 if self.layer == "first" else -1
        return Spelled(
            begun=("def fail(*_):", "    raise torch.OutOfMemoryError"),
            before=(
                f"if step == {python(self.step)}:",
                f"    layer = [layer for layer in model.modules() if isinstance(layer, nn.Linear)][{at}]",
                f"    hook = layer.register_{hook}(fail)",
                "    try:",
                "        model(feed(inputs)).float().sum().backward()",
                "    except torch.OutOfMemoryError:",
                "        hook.remove()",
                "        optimizer.zero_grad()",
            ),
        )
