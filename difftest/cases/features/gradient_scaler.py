"""`torch.amp.GradScaler`: gradients are unscaled, and an update is skipped that overflows."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.schema import Step
from difftest.cases.script_values import python

SCALE = 256.0
"""A power of two rounds nothing."""


class Options(FeatureOptions, frozen=True):
    """The step ahead of which a backward overflows."""

    step: Step

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Any step; half types have too little room for a scale."""
        if case.dtype != "float32" or case.replication.static_graph:
            return None
        return {"step": range(case.training.steps)}

    def spelled(self, _training: Training) -> Spelled:
        """Gradients are multiplied as if the loss had been; before one step a backward overflows."""
        return Spelled(
            begun=(
                "device = next(model.parameters()).device",
                f"scaler = torch.amp.GradScaler(device.type, init_scale={SCALE}, growth_interval=1000)",
            ),
            before=(
                f"if step == {python(self.step)}:",
                "    scaler.scale(model(feed(inputs)).float().sum() * torch.inf).backward()",
                "    scaler.step(optimizer)",
                "    scaler.update()",
                "    optimizer.zero_grad()",
            ),
            update=(
                "for parameter in model.parameters():",
                "    if parameter.grad is not None:",
                "        parameter.grad.mul_(scaler.get_scale())",
                "scaler.scale(torch.ones((), device=device))",
                "scaler.unscale_(optimizer)",
            ),
            after=("scaler.update()",),
        )
