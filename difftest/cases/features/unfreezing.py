"""A parameter that is not trained in the first steps."""

from typing import ClassVar

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled, has
from difftest.cases.features import frozen
from difftest.cases.schema import Step, TensorName
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The parameter, and the step from which it is trained."""

    PATHS: ClassVar[tuple[str, ...]] = ("wrappers",)

    name: TensorName
    step: Step

    def holds(self, name: str, step: int) -> bool:
        """Whether a parameter is the one, and the step one of the first."""
        return name == self.name and step < self.step

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Sharded parameters alone: DDP's documentation has what is trained decided before it wraps.

        Not beside what begins anew, or counts, with the parameters that have a gradient.
        """
        names = frozen.Options.drawn(case)
        sharded = "dp_shard" in case.layout.mesh.names
        loads = has(case, "frozen", "distributed_checkpoint", "save_and_load")
        if names is None or not sharded or case.training.steps == 1 or loads:
            return None
        return {**names, "step": range(1, case.training.steps)}

    def spelled(self, _training: Training) -> Spelled:
        """`requires_grad_`, off when the module is made and on ahead of a step."""
        parameter = f"model.get_parameter({python(self.name)})"
        return Spelled(
            built=(f"{parameter}.requires_grad_(False)",),
            before=(f"if step == {python(self.step)}:", f"    {parameter}.requires_grad_(True)"),
        )
