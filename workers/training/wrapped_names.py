"""What wrappers put into the names of modules, parameters and buffers, beside those of the model."""

import re

_WRAPPERS = re.compile(r"^((_orig_mod|module|_orig_module)(\.|$))+|(?<![^.])_fsdp_wrapped_module(\.|$)")
"""What stands before all names, and what FSDP1 puts before those inside each module that it wraps."""


def bare(name: str) -> str:
    """The model's name; it is empty for the model itself and for what is around it."""
    return _WRAPPERS.sub("", name).removesuffix(".")
