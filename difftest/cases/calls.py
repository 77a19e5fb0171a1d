"""What an operator of a program may call: names of operators below torch, and texts that stand for objects.

A program may come from elsewhere, and its calls become Python in a reproducer. Whether torch has such an
operator is found out where it is called (`workers.training.arguments`).
"""

from typing import Annotated, TypeAlias

import msgspec

from difftest.cases.schema import NAME

NAMESPACES = ("functional", "nn.functional", "linalg", "fft", "masked", "special", "signal.windows")
"""The modules below `torch` that have operators."""

BEYOND_TENSORS = ("compile", "fork", "from_file", "import_ir_module", "load", "save", "wait")
"""What torch has beside its operators that reads or writes files, or runs code."""

_ARITHMETIC = "add|sub|mul|truediv|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift"
_DUNDER = rf"__(?:[ir]?(?:{_ARITHMETIC})|getitem|invert|neg)__"
_OWN = rf"(?!__|(?:{'|'.join(BEYOND_TENSORS)})\b){NAME}"
_BELOW = "|".join(NAMESPACES).replace(".", r"\.")
_ATEN, _METHOD = rf"torch\.ops\.aten\.{_OWN}(?:\.{_OWN})?", rf"Tensor\.(?:{_OWN}|{_DUNDER})"
_FUNCTION = rf"torch\.(?:(?:{_BELOW})\.)?{_OWN}|{_ATEN}|{_METHOD}"

Call: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"^(?:{_FUNCTION})\Z")]
"""`torch.add`, `torch.nn.functional.linear`, `torch.ops.aten.add.Tensor`, `Tensor.add_`, and the like."""

ModuleCall: TypeAlias = Annotated[str, msgspec.Meta(pattern=rf"^torch\.nn\.{_OWN}\Z")]
"""A class of torch.nn."""

Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:+-]{0,100}\Z")]
"""A name, a number or a slice."""
