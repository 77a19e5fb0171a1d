"""Parameters are float32, and the model computes with copies of them in bfloat16."""

from typing import ClassVar, Literal

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has


class Options(FeatureOptions, frozen=True):
    """The dtype in which gradients are reduced, and who makes the output float32 again.

    `everywhere`: every module that the wrapper gathers by itself gives float32, not the model alone.
    """

    PATHS: ClassVar[tuple[str, ...]] = ("wrappers", "regions")

    reduce: Literal["float32", "bfloat16"]
    output: Literal["policy", "loss", "everywhere"]

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A case of float32; a block that is computed again, or traced apart, would find other parameters.

        Not in a wrapper that casts: `generators.paths.wrappers` adds what is computed again.
        """
        again = case.training.checkpointing or case.start.accumulation == "scan"
        other = case.dtype != "float32" or again or has(case, "autocast", "frozen")
        if other or case.model.statistics():
            return None
        return {"reduce": ("float32", "bfloat16"), "output": ("policy", "loss")}

    def widens(self, *, outermost: bool) -> bool:
        """Whether the policy of the wrapper of the model, or of one inside it, has an output in float32."""
        return self.output == "everywhere" or (outermost and self.output == "policy")

    def spelled(self, _training: Training) -> Spelled:
        """A forward pass that casts, where FSDP has no policy for it; float64, of the reference, stays."""
        return Spelled(
            casts=(
                "inner = nn.Sequential(*model)",
                "narrow = lambda one: one.bfloat16() if one.dtype is torch.float32 else one",
                "",
                "def casting(x):",
                "    copies = {name: narrow(one) for name, one in inner.named_parameters()}",
                "    output = torch.func.functional_call(inner, copies, narrow(x))",
                "    return output.float() if output.dtype is torch.bfloat16 else output",
                "",
                "model.forward = casting",
            )
        )
