"""`torch.save` and `torch.load` of the module and the optimizer, in the middle of a run."""

from difftest.cases.case import Case, Training
from difftest.cases.feature import Choices, FeatureOptions, Spelled
from difftest.cases.schema import Step
from difftest.cases.script_values import python


class Options(FeatureOptions, frozen=True):
    """The step before which the program saves and loads."""

    step: Step

    @classmethod
    def drawn(cls, case: Case) -> Choices | None:
        """Not before the first step, when there is no state yet."""
        steps = case.training.steps
        return {"step": range(1, steps)} if steps > 1 else None

    def spelled(self, _training: Training) -> Spelled:
        """What was saved is all there is: parameters are set to zero and the optimizer forgets its state."""
        return Spelled(
            before=(
                f"if step == {python(self.step)}:",
                "    torch.save([model.state_dict(), optimizer.state_dict()], file := io.BytesIO())",
                "    for parameter in model.parameters():",
                "        parameter.detach().zero_()",
                "    optimizer.state.clear()",
                "    file.seek(0)",
                "    for one, saved in zip((model, optimizer), torch.load(file)):",
                "        one.load_state_dict(saved)",
            )
        )
