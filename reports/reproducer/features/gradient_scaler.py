"""`torch.amp.GradScaler`: gradients are unscaled, and an update is skipped that overflows."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled
from reports.reproducer.values import python

SCALE = 256.0
"""As in `workers.training.features.gradient_scaler`."""


def spelled(options: Options, _training: Training) -> Spelled:
    """Gradients are multiplied as if the loss had been; ahead of one step comes a backward that overflows."""
    return Spelled(
        begun=(
            "device = next(model.parameters()).device",
            f"scaler = torch.amp.GradScaler(device.type, init_scale={SCALE}, growth_interval=1000)",
        ),
        before=(
            f"if step == {python(options['step'])}:",
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
