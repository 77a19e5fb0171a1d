"""An exponential moving average of the weights, which the model has in the end."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.schema import Share
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """How much of the average is kept in a step."""

    decay: Share

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A second step makes it an average."""
        return {"decay": (0.5, 0.875)} if case.training.steps > 1 else None

    def spelled(self, training: Training) -> Spelled:
        """The averaged model is a copy of the module in a wrapper, made after the first update."""
        average = f"torch.optim.swa_utils.get_ema_multi_avg_fn({python(self.decay)})"
        return Spelled(
            after=(
                'module = getattr(model, "module", model)',
                "if step == 0:",
                f"    averaged = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn={average})",
                "averaged.update_parameters(module)",
                f"if step == {python(training.steps - 1)}:",
                "    for parameter, average in zip(module.parameters(), averaged.module.parameters()):",
                "        parameter.detach().copy_(average.detach())",
            )
        )
