"""Operators that compute in bfloat16, by `torch.autocast`."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled


class Options(FeatureOptions, frozen=True):
    """It has none."""

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """A case of float32."""
        return {} if case.dtype == "float32" else None

    def spelled(self, _training: Training) -> Spelled:
        """Around the forward of the whole module; float64, of the reference, is left as it is."""
        return Spelled(
            built=(
                "def casting(x, forward=model.forward):",
                "    with torch.autocast(x.device.type, torch.bfloat16):",
                "        output = forward(x)",
                "    return output.float() if output.dtype is torch.bfloat16 else output",
                "",
                "model.forward = casting",
            )
        )
