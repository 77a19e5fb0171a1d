"""An optimizer whose steps can be captured in a graph."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Adam and AdamW in float32, without further arguments; they count steps, so more than one."""
        others = ("amsgrad", "implementation", "parameter_groups", "tensor_rate", "weight_decay")
        adam = case.training.optimizer in ("adam", "adamw") and case.dtype == "float32"
        return {} if adam and case.training.steps > 1 and not has(case, *others) else None

    def spelled(self, _training: Training) -> Spelled:
        """As torch's argument of that name, which torch refuses on the CPU, where the reference runs."""
        return Spelled(arguments={"capturable": 'next(model.parameters()).device.type != "cpu"'})
