"""The names of modules, parameters and buffers without what wrappers put into them."""

import re

from torch import nn

_WRAPPERS = re.compile(r"^((_orig_mod|module|_orig_module)(\.|$))+|(?<![^.])_fsdp_wrapped_module(\.|$)")
"""What stands before all names, and what FSDP1 puts before those inside each module that it wraps."""


def bare(name: str) -> str:
    """The model's name; it is empty for the model itself and for what is around it."""
    return _WRAPPERS.sub("", name).removesuffix(".")


def parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """The trained parameters by the model's names, without wrappers' prefixes."""
    return {bare(name): parameter for name, parameter in module.named_parameters()}


def state(module: nn.Module) -> dict[str, str]:
    """The names of the dtypes in a module's `state_dict`, by the model's names, sorted."""
    kept = {bare(name): str(tensor.dtype) for name, tensor in module.state_dict().items()}
    return {name: kept[name].removeprefix("torch.") for name in sorted(kept)}
