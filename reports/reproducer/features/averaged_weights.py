"""`AveragedModel` with an exponential moving average, which the model has in the end."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(options: Options, training: Training) -> Spelled:
    """The averaged model is a copy of the module in a wrapper, made after the first update."""
    average = f"torch.optim.swa_utils.get_ema_multi_avg_fn({python(options['decay'])})"
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
