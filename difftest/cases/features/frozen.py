"""A parameter that is not trained."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.layers import walk
from difftest.cases.schema import TensorName
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The parameter."""

    name: TensorName

    def holds(self, name: str, _step: int) -> bool:
        """Whether a parameter is the one."""
        return name == self.name

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """One of several parameters; not in models that tie theirs."""
        names = sorted(case.model.parameters())
        tied = any(layer.borrows() for _, layer in walk(case.model.layers))
        return None if tied or len(names) == 1 else {"name": tuple(names)}

    def spelled(self, _training: Training) -> Spelled:
        """It is frozen before the model is placed."""
        return Spelled(built=(f"model.get_parameter({python(self.name)}).requires_grad_(False)",))
