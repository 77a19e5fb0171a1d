"""Parameters are float32, and the model computes with copies of them in bfloat16."""

from difftest.cases.case import Training
from reports.reproducer.features import Options, Spelled


def spelled(_options: Options, _training: Training) -> Spelled:
    """A forward pass that casts, where FSDP has no policy for it; float64, of the reference, stays."""
    return Spelled(
        casts=(
            "inner = nn.Sequential(*model)",
            "narrow = lambda one: one.bfloat16() if one.dtype is torch.float32 else one",
            "",
            "def casting(x):",
            "    copies = {name: narrow(one) for name, one in inner.named_parameters()}",
            "    output = torch.func.functional_call(inner, copies, narrow(x))",
            "    return output.float() if output.dtype is torch.bfloat16 else output",
            "",
            "model.forward = casting",
        )
    )
