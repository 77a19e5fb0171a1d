"""`torch.save` and `torch.load` of the module and the optimizer, in the middle of a run."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(options: Options, _training: Training) -> Spelled:
    """What was saved is all there is: parameters are set to zero and the optimizer forgets its state."""
    return Spelled(
        before=(
            f"if step == {python(options['step'])}:",
            "    torch.save([model.state_dict(), optimizer.state_dict()], file := io.BytesIO())",
            "    for parameter in model.parameters():",
            "        parameter.detach().zero_()",
            "    optimizer.state.clear()",
            "    file.seek(0)",
            "    for one, saved in zip((model, optimizer), torch.load(file)):",
            "        one.load_state_dict(saved)",
        )
    )
