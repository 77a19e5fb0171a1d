"""A parameter that is not trained in the first steps."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python


def spelled(options: Options, _training: Training) -> Spelled:
    """`requires_grad_`, off when the module is made and on ahead of a step."""
    parameter = f"model.get_parameter({python(options['name'])})"
    return Spelled(
        built=(f"{parameter}.requires_grad_(False)",),
        before=(f"if step == {python(options['step'])}:", f"    {parameter}.requires_grad_(True)"),
    )
